"""orbit kernels manifest: only what was built or verified has one."""

from __future__ import annotations

import pytest

from orbit.cli import main
from orbit.errors import ExitCode


def test_nothing_was_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "manifest"]) == ExitCode.MISSING
    said = capsys.readouterr().err
    assert "orbit kernels build" in said
    assert "causal-conv1d" in said
