"""``orbit image tree``: exit codes and sentences; the stage behind it has its own tests."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from orbit.cli import main
from orbit.image.context import WHEELHOUSE
from orbit.kernels.build import Wheelhouse


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


def test_a_dry_run_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    wheels, out = tmp_path / "wheels", tmp_path / "tree"
    wheels.mkdir()
    (wheels / WHEELHOUSE).write_bytes(msgspec.json.encode(Wheelhouse(wheels=(), skipped=(), manifest_hash="0" * 64)))
    words = ["image", "tree", "--profile", "probe", "--wheels", str(wheels), "--out", str(out), "--dry-run"]
    assert main(words) == 0
    assert capsys.readouterr().out == f"the tree of orbit/probe with 0 wheels in {out}\nnothing was changed\n"
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"profile": "probe", "tree": str(out), "wheels": 0}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["wheels"]
