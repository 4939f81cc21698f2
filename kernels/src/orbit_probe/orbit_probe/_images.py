"""Device code inside our own shared object, read from its fatbin section: what the driver had to choose from."""

from __future__ import annotations

import functools
import struct
from pathlib import Path

LIBRARY = Path(__file__).with_name("liborbit_probe.so")
FATBIN_MAGIC = 0xBA55ED50
PTX, ARCH_SPECIFIC, FAMILY = 1, 0x100000, 0x200000


@functools.cache
def images() -> tuple[str, ...]:
    """Architectures in the library: ``("sm_100a", "sm_90a")``; PTX as ``compute_90``."""
    data = LIBRARY.read_bytes()
    found = set()
    for start, size in _sections(data, b".nv_fatbin"):
        at, end = start, start + size
        while at + 16 <= end and struct.unpack_from("<I", data, at)[0] == FATBIN_MAGIC:
            header, body = struct.unpack_from("<HQ", data, at + 6)
            entry, stop = at + header, at + header + body
            while entry + 64 <= stop:
                kind, entry_header, padded = struct.unpack_from("<HxxIQ", data, entry)
                arch, flags = struct.unpack_from("<I8xQ", data, entry + 28)
                suffix = "a" if flags & ARCH_SPECIFIC else "f" if flags & FAMILY else ""
                found.add(f"{'compute' if kind == PTX else 'sm'}_{arch}{suffix}")
                entry += entry_header + padded
            at = (stop + 7) & ~7
    return tuple(sorted(found))


def _sections(data: bytes, wanted: bytes) -> list[tuple[int, int]]:
    """(offset, size) of the ELF64 sections called ``wanted``."""
    table, entry_size, count, names_index = struct.unpack_from("<Q10xHHH", data, 40)
    headers = [struct.unpack_from("<IIQQQQ", data, table + index * entry_size) for index in range(count)]
    names = headers[names_index][4]
    return [
        (header[4], header[5])
        for header in headers
        if data[names + header[0] : data.index(b"\0", names + header[0])] == wanted
    ]
