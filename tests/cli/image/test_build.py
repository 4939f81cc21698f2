"""``orbit image build``: exit codes and sentences; the stage behind it has its own tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main


def test_a_dry_run_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    assert main(["image", "build", "--profile", "probe", "--dry-run"]) == 0
    assert "base, interpreter, kernels, stack, environment, orbit" in capsys.readouterr().out
    assert main(["image", "build", "--profile", "probe", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layers"][0] == "base"
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_profile_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "build", "--profile", "nonesuch"]) == 2
    assert "known profiles" in capsys.readouterr().err
