"""below: small files of the kernel, and what is not there."""

from __future__ import annotations

from pathlib import Path

from orbit.launch.preflight.below import field, names, number, text
from tests.launch.preflight.made import Machine


def test_what_is_there(tmp_path: Path) -> None:
    machine = (
        Machine(tmp_path)
        .write("/proc/a", "12 34\n")
        .write("/proc/b", "max\n")
        .write("/proc/c", "Name:\tx y\nUid:\t7\n")
    )
    assert (number(machine.root, "proc/a"), number(machine.root, "proc/b")) == (12, None)
    assert field(text(machine.root, "proc/c"), "Uid") == "7"
    assert names(machine.root, "proc") == ("a", "b", "c")


def test_what_is_not_there(tmp_path: Path) -> None:
    assert (text(tmp_path, "proc/x"), number(tmp_path, "proc/x"), names(tmp_path, "proc")) == ("", None, ())
    assert field("Name: x\n", "Uid") == ""
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert len(text(tmp_path, "binary")) == 2
