"""A writer of fatbin containers with made-up payloads: the headers are real, the code is not."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

ARCH = re.compile(r"^(sm|compute|lto)_(\d+)([af]?)$")


@dataclass(frozen=True)
class Entry:
    """One image: ``sm_90a`` becomes machine code, ``compute_90`` PTX, ``lto_90`` intermediate code."""

    arch: str
    payload: bytes = b"code" * 4
    compression: str = ""
    header_bytes: int = 64
    full: int | None = None
    """Bytes after decompression as the header states them; None: made up."""


def write_entry(entry: Entry) -> bytes:
    """The bytes of one entry, its payload padded to eight bytes."""
    match = ARCH.match(entry.arch)
    assert match is not None, entry.arch
    number = int(match[2])
    flags = (
        0x11
        | {"": 0, "a": 0x100000, "f": 0x200000}[match[3]]
        | {"": 0, "lz4": 0x2000, "zstd": 0x8000}[entry.compression]
    )
    if number >= 100:
        flags |= 0x1000000
    padded = entry.payload + b"\0" * (-len(entry.payload) % 8)
    compressed = len(entry.payload) if entry.compression else 0
    full = (4 * len(entry.payload) if entry.full is None else entry.full) if entry.compression else 0
    kind = {"compute": 1, "sm": 2, "lto": 8}[match[1]]
    header = struct.pack(
        "<HHIQIIHHIIIQQQ",
        kind,
        0x101,
        entry.header_bytes,
        len(padded),
        compressed,
        0,
        7,
        1,
        number,
        0,
        0,
        flags,
        0,
        full,
    )
    return header.ljust(entry.header_bytes, b"\0") + padded


def write_container(*entries: Entry | str) -> bytes:
    """One container; a plain string stands for an entry of that architecture."""
    body = b"".join(write_entry(Entry(item) if isinstance(item, str) else item) for item in entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def write_section(*containers: bytes, padding: int = 8) -> bytes:
    """Containers one after another with ``padding`` zero bytes between and after them."""
    return b"".join(container + b"\0" * padding for container in containers)
