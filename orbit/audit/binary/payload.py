"""The content of a fatbin image: LZ4 blocks and zstd frames to the bytes that the driver would see.

The header states how large the content is, and it is a stranger's word: no more than that many bytes are ever
produced, never more than :data:`MAX_IMAGE_BYTES`, and content of another size is refused. Both formats as measured on
CUDA 12 and CUDA 13 wheels: a raw LZ4 block without a frame around it, or one zstd frame.
"""

from __future__ import annotations

import functools

import lz4.block
import zstandard

from orbit.audit.binary.elf import MalformedBinary

MAX_IMAGE_BYTES = 1 << 30
"""Larger images are refused. The largest of the cu130 lock has 153 MB."""
LZ4_RATIO = 255
"""No LZ4 block grows more than this (one length byte stands for at most 255 bytes): cheaper to know than to try."""


class MalformedImage(MalformedBinary):
    """An image does not hold what its header states."""


def unpack(payload: bytes, compression: str, size: int, label: str) -> bytes:
    """The content of ``payload``, exactly ``size`` bytes (not compressed: ``payload`` itself, whatever ``size`` says).

    ``compression`` is ``lz4``, ``zstd`` or empty as in :class:`orbit.audit.binary.fatbin.Image`; ``label`` names the
    image in errors. Raises :class:`MalformedImage`.
    """
    if max(size if compression else 0, len(payload)) > MAX_IMAGE_BYTES:
        raise MalformedImage(f"{label}: states {size} bytes, more than {MAX_IMAGE_BYTES}")
    if not compression:
        return payload
    try:
        found = _lz4(payload, size) if compression == "lz4" else _zstd(payload, size)
    except (lz4.block.LZ4BlockError, zstandard.ZstdError, ValueError, MemoryError) as error:
        raise MalformedImage(f"{label}: {compression} data cannot be unpacked: {error}") from None
    if len(found) != size:
        raise MalformedImage(f"{label}: unpacks to {len(found)} bytes instead of {size}")
    return found


def _lz4(payload: bytes, size: int) -> bytes:
    if size > (len(payload) + 1) * LZ4_RATIO:
        raise ValueError(f"{len(payload)} bytes cannot hold {size}")
    found: bytes = lz4.block.decompress(payload, uncompressed_size=size)
    return found


def _zstd(payload: bytes, size: int) -> bytes:
    stated = zstandard.frame_content_size(payload)
    if stated not in (-1, size):
        raise ValueError(f"the frame states {stated} bytes instead of {size}")
    return _decompressor().decompress(payload, max_output_size=size)


@functools.cache
def _decompressor() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(max_window_size=MAX_IMAGE_BYTES)
