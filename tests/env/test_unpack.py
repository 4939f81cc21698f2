"""orbit.env.unpack: modes, times, holes, and environment.json last."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from orbit.env import tree
from orbit.env.archive_list import Line
from orbit.env.record import RECORD_PATH
from orbit.env.unpack import HELD_MAX_BYTES, Writer
from orbit.errors import InputError


def write(writer: Writer, line: Line, *pieces: bytes) -> None:
    take = writer.begin(line)
    for piece in pieces:
        take(piece)
    writer.end(line)


def test_modes_and_times_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        writer = Writer(tmp_path / "x")
        for folder in ("bin", "share", "share/orbit"):
            writer.end(Line(folder, 0o40755, 0, ""))
        write(writer, Line("bin/tool", 0o100755, 2, ""), b"a", b"b")
        write(writer, Line(RECORD_PATH, 0o100644, 2, ""), b"{}")
        writer.end(Line("bin/link", 0o120777, 0, "tool"))
        assert not (tmp_path / "x" / RECORD_PATH).exists()
        writer.finish()
    finally:
        os.umask(old)
    modes = {"": 0o755, "bin": 0o755, "share/orbit": 0o755, "bin/tool": 0o755, RECORD_PATH: 0o644}
    for path, mode in modes.items():
        state = os.lstat(tmp_path / "x" / path)
        assert (stat.S_IMODE(state.st_mode), state.st_mtime_ns) == (mode, tree.EPOCH_NS), path
    assert os.lstat(tmp_path / "x" / "bin" / "link").st_mtime_ns == tree.EPOCH_NS
    assert (tmp_path / "x" / "bin" / "link").read_bytes() == b"ab"


@pytest.mark.parametrize("pieces", [
    [bytes(1 << 20)] * 3, [b"a", bytes(1 << 20), b"b"], [bytes(1 << 20), b"x"], [b"x", bytes(70_000)], [b""],
])  # fmt: skip
def test_zeros_become_holes_and_read_back_as_zeros(tmp_path: Path, pieces: list[bytes]) -> None:
    writer = Writer(tmp_path / "x")
    data = b"".join(pieces)
    write(writer, Line("file", 0o100644, len(data), ""), *pieces)
    assert (tmp_path / "x" / "file").read_bytes() == data
    if len(data) > 1 << 20:
        assert os.stat(tmp_path / "x" / "file").st_blocks * 512 < len(data)


def test_a_file_that_is_there_is_never_written_through(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x")
    (tmp_path / "x" / "file").symlink_to(tmp_path / "outside")
    with pytest.raises(FileExistsError):
        writer.begin(Line("file", 0o100644, 1, ""))
    assert not (tmp_path / "outside").exists()


def test_what_is_held_back_has_a_limit(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x")
    with pytest.raises(InputError, match=r"environment\.json"):
        writer.begin(Line(RECORD_PATH, 0o100644, HELD_MAX_BYTES + 1, ""))


def test_close_gives_up_an_open_file(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x")
    before = len(os.listdir("/proc/self/fd"))
    writer.begin(Line("file", 0o100644, 9, ""))
    writer.close()
    writer.close()
    assert len(os.listdir("/proc/self/fd")) == before
