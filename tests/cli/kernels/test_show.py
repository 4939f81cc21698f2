"""orbit kernels show: a recipe by name, a wheel by path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.errors import ExitCode


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "show", "causal-conv1d"]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "CAUSAL_CONV1D_FORCE_BUILD=TRUE" in text
    assert "9.0a;10.0a" in text
    assert main(["kernels", "show", "causal-conv1d", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["recipe"]["device_units"] == 3


def test_neither_a_recipe_nor_a_wheel(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "show", "nope"]) == ExitCode.USAGE
    assert "known recipes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "shown", "compared"),
    [
        (b"", ExitCode.USAGE, ExitCode.USAGE),
        (b"PK\x05\x06" + bytes(18), ExitCode.FINDINGS, ExitCode.OK),  # an archive with nothing in it
        (b"no archive", ExitCode.USAGE, ExitCode.USAGE),
    ],
)
def test_what_is_no_wheel_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, shown: ExitCode, compared: ExitCode
) -> None:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    assert main(["kernels", "show", str(path)]) == ExitCode.USAGE
    assert "no such file" in capsys.readouterr().err
    path.write_bytes(content)
    assert main(["kernels", "show", str(path)]) == shown
    assert main(["kernels", "compare", str(path), str(path)]) == compared


@pytest.mark.parametrize("option", ["--deep", "--sass", "--verbose"])
def test_options_about_wheels_are_not_ignored(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "show", "orbit-probe", option]) == ExitCode.USAGE
    assert option in capsys.readouterr().err
