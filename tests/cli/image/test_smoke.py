"""``orbit image smoke``: exit codes and sentences; the stage behind it has its own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.cli import main


def test_what_is_no_layout_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["image", "smoke", str(empty), "--profile", "probe"]) == 2
    assert "not an OCI layout" in capsys.readouterr().err
