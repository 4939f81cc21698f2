"""``orbit image slim``: exit codes and sentences; the stage behind it has its own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.cli import main


def test_an_unknown_profile_is_bad_input_and_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    assert main(["image", "slim", "--profile", "nonesuch", "--out", str(tmp_path / "image")]) == 2
    assert "known profiles" in capsys.readouterr().err
    assert not (tmp_path / "image").exists()


def test_an_unknown_choice_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["image", "slim", "--ptx", "some"])
    assert "--ptx" in capsys.readouterr().err
