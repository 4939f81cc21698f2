"""``orbit image context``: exit codes and sentences; the stage behind it has its own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.cli import main


def test_an_unknown_profile_is_bad_input_and_makes_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", "context", "--profile", "nonesuch", "--out", str(tmp_path / "context")]) == 2
    assert "known profiles" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
