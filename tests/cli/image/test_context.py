"""``orbit image context``: exit codes and sentences; the stage behind it has its own tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main


def test_an_unknown_profile_is_bad_input_and_makes_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", "context", "--profile", "nonesuch", "--out", str(tmp_path / "context")]) == 2
    assert "known profiles" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_says_what_the_folder_would_be_and_makes_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "context"
    assert main(["image", "context", "--profile", "probe", "--out", str(out), "--dry-run"]) == 0
    assert capsys.readouterr().out == f"a build context for orbit/probe in {out}\nnothing was changed\n"
    assert main(["image", "context", "--profile", "probe", "--out", str(out), "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"profile": "probe", "context": str(out)}
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "precious").touch()
    assert main(["image", "context", "--profile", "probe", "--out", str(tmp_path), "--dry-run"]) == 2
    assert "is not a build context" in capsys.readouterr().err
