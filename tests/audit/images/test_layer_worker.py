"""Layers read by a process of their own: every codec, parts of files, damage as a sentence."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import pytest
import zstandard

from orbit.audit.files import keeper, scan
from orbit.audit.images.layer_worker import Reply, Request, read_apart, read_blob
from orbit.audit.images.layers import read_layer
from orbit.errors import InputError, OrbitError
from tests.writers.elf import Export, write_elf
from tests.writers.fatbin import write_container
from tests.writers.images import gzip_members, zstd_frames
from tests.writers.tiny_image import file, tar_bytes

LIBRARY = write_elf(
    soname="liba.so",
    exports=[Export(f"function_{number}") for number in range(500)],
    sections=[(".nv_fatbin", write_container("sm_90a", "sm_100a")), (".rodata", b"z" * 20_000)],
)
TAR = tar_bytes([file("lib/liba.so", LIBRARY), file("etc/passwd", b"root"), file("big", b"b" * 3_000_000)])
FACTS, _ = read_layer([TAR], "x")


def request(
    path: Path, *, offset: int = 0, size: int | None = None, unpacked: bool = False, threads: bool = True
) -> Request:
    length = path.stat().st_size if size is None else size
    return Request(os.fsencode(path), offset, length, "layer x", unpacked, threads)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("codec", "data"),
    [("none", TAR), ("gzip", gzip.compress(TAR, 1)), ("gzip", gzip_members(TAR)), ("zstd", zstandard.compress(TAR)),
     ("zstd", zstd_frames(TAR))],
)  # fmt: skip
@pytest.mark.parametrize("threads", [False, True])
def test_every_codec_gives_the_same_facts(tmp_path: Path, codec: str, data: bytes, threads: bool) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"in front" + data + b"behind")
    found = read_blob(request(path, offset=8, size=len(data), threads=threads))
    assert found == Reply(FACTS, sha256(data), codec)
    unpacked = read_blob(request(path, offset=8, size=len(data), unpacked=True, threads=threads))
    assert unpacked.digest == sha256(TAR)


def test_a_process_of_its_own_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a name with \udcff"
    path.write_bytes(zstandard.compress(TAR))
    assert read_apart(request(path)) == Reply(FACTS, sha256(path.read_bytes()), "zstd")


def test_nothing_is_missing_in_a_tar_that_is_not_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And in a compressed one what is missing is read again: the facts are equal."""
    monkeypatch.setattr(scan, "WHOLE_BYTES", 1000)
    for name in ("PLAN_BYTES", "HEAD_BYTES", "SEGMENT_BYTES", "TAIL_BYTES", "NAMES_BYTES"):
        monkeypatch.setattr(keeper, name, 512)
    for data in (TAR, zstandard.compress(TAR)):
        path = tmp_path / "blob"
        path.write_bytes(data)
        assert read_blob(request(path)).facts == FACTS


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b"no tar at all" * 100, "no header where one must be"),
        (gzip.compress(TAR)[:-20], "not a whole gzip stream"),
        (b"BZh91AY", "compressed with bzip2"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(tmp_path: Path, data: bytes, word: str) -> None:
    path = tmp_path / "blob"
    path.write_bytes(data)
    with pytest.raises(OrbitError, match=word):
        read_blob(request(path))
    with pytest.raises(InputError, match=word):
        read_apart(request(path))


def test_a_file_that_became_shorter_or_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(zstandard.compress(TAR))
    with pytest.raises(InputError, match="cut short"):
        read_apart(request(path, size=path.stat().st_size + 100))
    path.write_bytes(TAR)
    with pytest.raises(InputError, match="cut short"):
        read_apart(request(path, size=len(TAR) + 100))
    found = request(path)
    path.unlink()
    with pytest.raises(InputError, match="No such file"):
        read_apart(found)
