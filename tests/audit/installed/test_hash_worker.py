"""The hash worker as the program it is: one line for each file, in order, whatever the file turns out to be."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from orbit.audit.installed import hash_worker
from orbit.audit.installed.hash_worker import BUFFER_BYTES, digest_of, refused
from orbit.core.proc import run
from tests.writers.environment import record_digest


def work(request: bytes) -> list[str]:
    argv = [sys.executable, "-I", "-S", hash_worker.__file__]
    return run(argv, doing="hashing", stdin=request).stdout.decode().split("\n")[:-1]


def ask(*files: tuple[str, int, Path | bytes]) -> list[str]:
    parts = [os.fsencode(part) if not isinstance(part, int) else b"%d" % part for file in files for part in file]
    return work(b"".join(part + b"\0" for part in parts))


def in_process(path: Path, size: int = -1, algorithm: bytes = b"sha256") -> str:
    buffer = bytearray(BUFFER_BYTES)
    return digest_of(algorithm, size, os.fsencode(path), buffer, memoryview(buffer))


def test_one_line_for_each_file_in_the_order_asked(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"first")
    (tmp_path / "b").write_bytes(b"second")
    lines = ask(("sha256", 6, tmp_path / "b"), ("sha256", 5, tmp_path / "a"), ("sha256", -1, tmp_path / "b"))
    assert lines == [record_digest(b"second"), record_digest(b"first"), record_digest(b"second")]


def test_files_that_cannot_be_hashed_say_why_and_do_not_shift_the_rest(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling").symlink_to("none")
    lines = ask(
        ("sha256", 4, tmp_path / "none"),
        ("sha256", 5, tmp_path / "file"),
        ("sha256", -1, tmp_path / "folder"),
        ("sha256", -1, tmp_path / "fifo"),
        ("sha256", 4, tmp_path / "dangling"),
        ("sha256", 4, tmp_path / "file" / "below"),
        ("sha256", 4, tmp_path / ("x" * 300)),
        ("sha256", 4, tmp_path / "file"),
    )
    assert lines == [
        "!No such file or directory",
        "!of another size",
        "!not a regular file",
        "!not a regular file",
        "!No such file or directory",
        "!Not a directory",
        "!File name too long",
        record_digest(b"data"),
    ]


def test_names_with_newlines_and_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    paths = [os.fsencode(tmp_path) + name for name in (b"/a\nb", b"/\xff\xfe", b"/ c,\"'")]
    for number, path in enumerate(paths):
        with open(path, "wb") as file:
            file.write(b"%d" % number)
    lines = ask(*(("sha256", 1, path) for path in paths), ("sha256", 1, paths[0] + b"\n"))
    assert lines == [record_digest(b"0"), record_digest(b"1"), record_digest(b"2"), "!No such file or directory"]


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
def test_digest_is_in_the_spelling_of_record(tmp_path: Path, algorithm: str) -> None:
    (tmp_path / "file").write_bytes(b"data")
    digest = base64.urlsafe_b64encode(hashlib.new(algorithm, b"data").digest()).decode().rstrip("=")
    assert ask((algorithm, 4, tmp_path / "file")) == [digest]


def test_unknown_algorithm_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    (line,) = ask(("crc7", 4, tmp_path / "file"))
    assert line.startswith("!unsupported hash type crc7")


def test_nothing_to_do() -> None:
    assert work(b"") == []


@pytest.mark.parametrize("request_bytes", [b"sha256\0" + b"4\0", b"sha256\0" + b"4\0/x", b"sha256\0four\0/x\0"])
def test_broken_request_ends_the_program(request_bytes: bytes) -> None:
    argv = [sys.executable, "-I", "-S", hash_worker.__file__]
    done = run(argv, doing="hashing", stdin=request_bytes, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_short_reads_in_the_middle_are_not_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    """File systems in user space may give less than asked although more follows."""
    data = os.urandom(3000)
    (tmp_path / "file").write_bytes(data)
    monkeypatch.setattr(hash_worker.os, "readv", lambda handle, buffers: short_read(handle, buffers, pieces))
    assert in_process(tmp_path / "file", len(data)) == record_digest(data)


def short_read(handle: int, buffers: Sequence[bytearray], size: int) -> int:
    data = os.read(handle, size)
    buffers[0][: len(data)] = data
    return len(data)


def test_file_that_ends_early_gives_the_digest_of_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is cut while it is read has another digest; it does not make the worker wait for the rest."""
    (tmp_path / "file").write_bytes(b"12345678")
    real = os.readv

    def cut_then_read(handle: int, buffers: Sequence[bytearray]) -> int:
        os.truncate(tmp_path / "file", 4)
        return real(handle, buffers)

    monkeypatch.setattr(hash_worker.os, "readv", cut_then_read)
    assert in_process(tmp_path / "file", 8) == record_digest(b"1234")


def test_error_while_reading_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"data")

    def fail(_handle: int, _buffers: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(hash_worker.os, "readv", fail)
    assert in_process(tmp_path / "file") == "![Errno 5] Input/output error"


def test_a_terabyte_of_holes_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"head")
    os.truncate(tmp_path / "x", 1 << 40)
    assert refused(os.stat(tmp_path / "x"), -1) == "!mostly holes"
    os.truncate(tmp_path / "x", 1 << 30)
    assert refused(os.stat(tmp_path / "x"), -1) == ""


def test_a_file_that_grows_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"x" * 10)
    monkeypatch.setattr(os, "readv", lambda _handle, buffers: len(buffers[0]))
    buffer = bytearray(BUFFER_BYTES)
    found = digest_of(b"sha256", 10, bytes(tmp_path / "x"), buffer, memoryview(buffer))
    assert found == "!grew while it was read"
