"""A writer of ld.so.cache: the format of glibc 2.32 and newer, with or without the old part in front."""

from __future__ import annotations

import struct
from collections.abc import Sequence

HWCAP_EXTENSION = 1 << 62


def write_cache(
    entries: Sequence[tuple[str, str, str]], *, flags: int = 0x0303, old: int | None = None, hwcap: int | None = None
) -> bytes:
    """``entries`` are (soname, path, folder of glibc-hwcaps or empty); ``old`` puts so many old entries in front.

    ``hwcap`` overrides the capability word of every entry.
    """
    names = sorted({folder for _soname, _path, folder in entries if folder})
    head = 48 + 24 * len(entries)
    strings = b""

    def add(text: str) -> int:
        nonlocal strings
        strings += text.encode() + b"\0"
        return head + len(strings) - len(text.encode()) - 1

    table = b""
    for soname, path, folder in entries:
        word = HWCAP_EXTENSION | names.index(folder) if folder else 0
        word = word if hwcap is None else hwcap
        table += struct.pack("<iIIIQ", flags, add(soname), add(path), 0, word)
    offsets = [add(name) for name in names]
    strings += b"\0" * (-(head + len(strings)) % 4)
    at = head + len(strings)
    extension = struct.pack("<II", 0xEAA42174, 1) + struct.pack("<IIII", 1, 0, at + 24, 4 * len(offsets))
    extension += struct.pack(f"<{len(offsets)}I", *offsets)
    header = b"glibc-ld.so.cache1.1" + struct.pack("<IIB3xI12x", len(entries), len(strings), 2, at if names else 0)
    new = header + table + strings + (extension if names else b"")
    if old is None:
        return new
    front = b"ld.so-1.7.0".ljust(12, b"\0") + struct.pack("<I", old) + bytes(12 * old)
    return front + b"\0" * (-len(front) % 8) + new
