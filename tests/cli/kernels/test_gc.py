"""orbit kernels gc: sizes as people write them, and nothing goes before it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.cli import main
from orbit.errors import ExitCode


def test_room_is_made(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit = store / "units" / "ab" / "cd"
    unit.parent.mkdir(parents=True)
    unit.write_bytes(bytes(4096))
    assert main(["kernels", "gc", "--keep-days", "0", "--dry-run"]) == ExitCode.OK
    assert "would be freed" in capsys.readouterr().out
    assert unit.exists()
    assert main(["kernels", "gc", "--keep-days", "0"]) == ExitCode.OK
    assert not unit.exists()


def test_what_is_no_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "gc", "--max-size", "much"]) == ExitCode.USAGE
    assert "20G" in capsys.readouterr().err


@pytest.mark.parametrize("days", ["-1", "nan"])
def test_what_is_no_time(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "gc", "--keep-days", days]) == ExitCode.USAGE
    assert "--keep-days" in capsys.readouterr().err
