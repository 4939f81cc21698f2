"""Unpacking an image: exactly what the header states, or a reason, and never more than the limit."""

from __future__ import annotations

import contextlib
import tracemalloc

import lz4.block
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.binary.payload import MAX_IMAGE_BYTES, MalformedImage, unpack

CONTENT = b"kernel" * 1000
ZSTD = zstandard.ZstdCompressor().compress(CONTENT)
LZ4 = lz4.block.compress(CONTENT, store_size=False)


def without_size(content: bytes) -> bytes:
    """A zstd frame that does not say how large its content is."""
    writer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return writer.compress(content) + writer.flush()


@pytest.mark.parametrize(
    ("payload", "compression"), [(ZSTD, "zstd"), (LZ4, "lz4"), (without_size(CONTENT), "zstd"), (CONTENT, "")]
)
def test_content(payload: bytes, compression: str) -> None:
    assert unpack(payload, compression, len(CONTENT), "x") == CONTENT


@pytest.mark.parametrize(("payload", "compression"), [(ZSTD, "zstd"), (LZ4, "lz4"), (without_size(CONTENT), "zstd")])
@pytest.mark.parametrize("size", [0, 1, len(CONTENT) - 1, len(CONTENT) + 1, 1 << 29, MAX_IMAGE_BYTES + 1, 1 << 63])
def test_lying_sizes_are_refused(payload: bytes, compression: str, size: int) -> None:
    with pytest.raises(MalformedImage, match=r"^lib\.so\[3\]"):
        unpack(payload, compression, size, "lib.so[3]")


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_damaged_data_is_refused(compression: str) -> None:
    good = ZSTD if compression == "zstd" else LZ4
    for payload in (b"", b"junk", good[:-3]):
        with pytest.raises(MalformedImage):
            unpack(payload, compression, len(CONTENT), "x")


@pytest.mark.parametrize("payload", [zstandard.compress(bytes(1 << 26)), without_size(bytes(1 << 26))])
def test_a_bomb_takes_no_more_than_it_states(payload: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MalformedImage):
            unpack(payload, "zstd", 1000, "x")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=400), st.sampled_from(["zstd", "lz4"]), st.integers(0, 1 << 20))
def test_any_bytes_give_content_of_that_size_or_a_reason(payload: bytes, compression: str, size: int) -> None:
    with contextlib.suppress(MalformedImage):
        assert len(unpack(payload, compression, size, "x")) == size
