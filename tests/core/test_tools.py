"""Finding programs: beside the interpreter, on PATH, or a sentence about how to get them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orbit.core import tools
from orbit.errors import ExitCode, MissingError


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_program_beside_the_interpreter_wins_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = program(tmp_path / "path" / "uv")
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    assert tools.uv() == on_path
    own = program(tmp_path / "venv" / "bin" / "uv")
    assert tools.uv() == own


@pytest.mark.parametrize(("name", "fix"), [("bwrap", "bubblewrap"), ("orbit-none", "install orbit-none")])
def test_a_missing_program_says_how_to_get_it(
    name: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=f"{name}: program not found on PATH") as caught:
        tools.find(name)
    assert fix in caught.value.fix
    assert caught.value.code is ExitCode.MISSING


def test_a_file_that_cannot_be_run_is_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "x").chmod(0o644)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError):
        tools.find("x")
