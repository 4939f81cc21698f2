"""orbit kernels reproduce: it needs a wheel that was built here."""

from __future__ import annotations

import pytest

from orbit.cli import main
from orbit.errors import ExitCode


def test_what_was_never_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "reproduce", "causal-conv1d"]) == ExitCode.MISSING
    assert "orbit kernels build causal-conv1d" in capsys.readouterr().err


def test_what_others_publish(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "reproduce", "sglang-kernel"]) == ExitCode.USAGE
    assert "not compiled here" in capsys.readouterr().err
