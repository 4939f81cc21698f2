"""Decompression: whole streams of every kind come out as they went in, cut and unknown ones are typed errors."""

from __future__ import annotations

import bz2
import collections
import gzip
import hashlib
import lzma
import random
import time
from collections.abc import Iterator

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.audit.images import decompress
from orbit.audit.images.decompress import Hashing, ahead, codec_of, decompressed
from orbit.errors import InputError
from tests.writers.images import gzip_members, zstd_frames

TEXT = b"layer" * 100_000


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


PACKED = {
    "gzip": gzip.compress(TEXT, 1, mtime=0),
    "gzip members": gzip_members(TEXT),
    "gzip with padding": gzip.compress(TEXT, 1, mtime=0) + bytes(600),
    "zstd": zstandard.compress(TEXT),
    "zstd frames": zstd_frames(TEXT),
    "zstd with a skippable frame first": b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstandard.compress(TEXT),
    "plain": TEXT,
}


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
def test_it_comes_out_as_it_went_in(kind: str, size: int) -> None:
    if size == 1 and kind == "plain":
        size = 3
    assert b"".join(decompressed(pieces(PACKED[kind], size), "x")) == TEXT


def test_nothing_stays_nothing() -> None:
    assert list(decompressed(iter(()), "x")) == []
    assert codec_of(b"") == "none"


@pytest.mark.parametrize("data", [bz2.compress(TEXT), lzma.compress(TEXT)])
def test_other_codecs_are_named(data: bytes) -> None:
    with pytest.raises(InputError, match=r"bzip2|xz"):
        list(decompressed([data], "x"))


@pytest.mark.parametrize("cut", [20, 200, -1])
def test_a_gzip_stream_that_is_cut_short_is_an_error(cut: int) -> None:
    with pytest.raises(InputError, match="not a whole gzip stream"):
        list(decompressed([PACKED["gzip"][:cut]], "x"))


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_changed_stream_is_an_error(kind: str) -> None:
    data = bytearray(PACKED[kind])
    data[len(data) // 2] ^= 0xFF
    data += b"more that belongs to nothing"
    with pytest.raises(InputError, match=f"not a whole {kind} stream"):
        list(decompressed([bytes(data)], "x"))


def test_a_stream_that_unpacks_to_far_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress, "MAX_TAR_BYTES", 10 << 20)
    bomb = zstandard.compress(bytes(64 << 20))
    assert len(bomb) < 10_000
    with pytest.raises(InputError, match="unpacks to more than"):
        collections.deque(decompressed([bomb], "x"), maxlen=0)


def test_pieces_of_a_gzip_bomb_are_small() -> None:
    assert max(map(len, decompressed([gzip.compress(bytes(8 << 20))], "x"))) <= decompress.PIECE_BYTES


@settings(max_examples=200, deadline=None)
@given(
    kind=st.sampled_from(["gzip", "gzip members", "zstd", "zstd frames"]),
    at=st.integers(0, 2000),
    junk=st.binary(min_size=1, max_size=9),
)
def test_any_change_gives_bytes_or_a_typed_error(kind: str, at: int, junk: bytes) -> None:
    data = bytearray(PACKED[kind])
    data[at : at + len(junk)] = junk
    try:
        total = sum(map(len, decompressed(pieces(bytes(data), 997), "x")))
    except InputError:
        return
    assert total <= len(TEXT) + 2000


def test_hashing_passes_on_and_hashes() -> None:
    hashing = Hashing(pieces(TEXT, 1000))
    assert b"".join(hashing) == TEXT
    assert (hashing.size, hashing.hexdigest()) == (len(TEXT), hashlib.sha256(TEXT).hexdigest())


def test_ahead_keeps_order_and_passes_errors_on() -> None:
    def broken() -> Iterator[int]:
        yield from range(20)
        raise InputError("stop")

    found: list[int] = []
    with pytest.raises(InputError, match="stop"):
        collections.deque(map(found.append, ahead(broken())), maxlen=0)
    assert found == list(range(20))


def test_ahead_ends_its_thread_when_nobody_listens() -> None:
    made: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            made.append(len(made))
            yield made[-1]

    items = ahead(endless(), depth=2)
    assert next(items) == 0
    items.close()
    count = len(made)
    time.sleep(0.05)
    assert len(made) == count <= 6


def test_a_stream_that_packs_better_than_any_image_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it has kept the audit busy for hours; half of it being real is enough to be let through."""
    monkeypatch.setattr(decompress, "FREE_BYTES", 4 << 20)
    for bomb in (zstandard.compress(bytes(64 << 20)), gzip.compress(bytes(64 << 20))):
        with pytest.raises(InputError, match="200 times as many"):
            collections.deque(decompressed([bomb], "x"), maxlen=0)
    real = random.Random(1).randbytes(1 << 20)
    assert sum(map(len, decompressed([gzip.compress(real + bytes(64 << 20))], "x"))) == 65 << 20
