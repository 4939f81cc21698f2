"""``orbit image tree``: exit codes and sentences; the stage behind it has its own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.cli import main


def test_a_folder_that_is_no_wheelhouse_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    status = main(["image", "tree", "--profile", "probe", "--wheels", str(wheels), "--out", str(tmp_path / "tree")])
    assert status == 2
    assert str(wheels) in capsys.readouterr().err
    assert not (tmp_path / "tree").exists()
