"""A writer of small ELF64 shared objects: sections, dynamic entries, versioned symbols with a real DT_GNU_HASH."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_DYNAMIC, SHT_DYNSYM = 1, 2, 3, 6, 11
HELD_AT = 176
"""Where the first section starts: behind the file header and two program headers."""
DT_NEEDED, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 5, 6, 10, 14, 15, 29
DT_GNU_HASH, DT_VERSYM, DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = (
    0x6FFFFEF5,
    0x6FFFFFF0,
    0x6FFFFFFC,
    0x6FFFFFFD,
    0x6FFFFFFE,
    0x6FFFFFFF,
)


@dataclass(frozen=True)
class Import:
    """An undefined symbol; with ``version`` it is looked for as ``name@version`` in ``library``."""

    name: str
    version: str = ""
    library: str = ""
    weak: bool = False


@dataclass(frozen=True)
class Export:
    """A defined symbol, as ``name@version`` when a version is given."""

    name: str
    version: str = ""
    data: bytes = b""
    """What stands at the symbol: the value of a variable, the code of a function."""


class _Strings:
    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        offset = len(self.data)
        self.data += text.encode() + b"\0"
        return offset


def elf_hash(name: str) -> int:
    """The System V hash that version records carry."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high
    return value


def gnu_hash(name: str) -> int:
    """The hash of DT_GNU_HASH."""
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def _version_records(
    strings: _Strings, soname: str, imports: Sequence[Import], exports: Sequence[Export]
) -> tuple[dict[tuple[str, str], int], bytes, int, bytes, int]:
    """(index by (library, version); verdef bytes and count; verneed bytes and count); library "" = our own."""
    index: dict[tuple[str, str], int] = {}
    defined = list(dict.fromkeys(e.version for e in exports if e.version))
    verdef = b""
    for position, version in enumerate([soname, *defined] if defined else []):
        if position:
            index["", version] = position + 1
        following = 28 if position < len(defined) else 0
        verdef += struct.pack("<HHHHIII", 1, int(position == 0), position + 1, 1, elf_hash(version), 20, following)
        verdef += struct.pack("<II", strings.add(version), 0)
    needed: dict[str, list[str]] = {}
    for item in imports:
        if item.version and item.version not in needed.setdefault(item.library, []):
            needed[item.library].append(item.version)
    number, verneed = len(defined) + 2, b""
    for at, (library, versions) in enumerate(needed.items()):
        following = 16 + 16 * len(versions) if at + 1 < len(needed) else 0
        verneed += struct.pack("<HHIII", 1, len(versions), strings.add(library), 16, following)
        for position, version in enumerate(versions):
            index[library, version] = number
            after = 16 if position + 1 < len(versions) else 0
            verneed += struct.pack("<IHHII", elf_hash(version), 0, number, strings.add(version), after)
            number += 1
    return index, verdef, len(defined) + 1 if defined else 0, verneed, len(needed)


def _gnu_hash_table(first: int, exports: Sequence[Export], buckets: int) -> bytes:
    heads = [0] * buckets
    chains: list[int] = []
    last: int | None = None
    for position, item in enumerate(exports):
        value = gnu_hash(item.name)
        bucket = value % buckets
        if bucket != last and chains:
            chains[-1] |= 1
        if bucket != last:
            heads[bucket] = first + position
        chains.append(value & ~1)
        last = bucket
    if chains:
        chains[-1] |= 1
    bloom = 0xFFFFFFFFFFFFFFFF if exports else 0
    return struct.pack(f"<IIIIQ{buckets}I{len(chains)}I", buckets, first, 1, 6, bloom, *heads, *chains)


def _hidden(held: bytes, hidden: Mapping[str, bytes]) -> tuple[bytes, bytes, bytes]:
    """(``held`` with what the local objects hold, .symtab, .strtab)."""
    strings, symtab = _Strings(), bytes(24)
    for name, data in hidden.items():
        symtab += struct.pack("<IBBHQQ", strings.add(name), 0x01, 0, 1, HELD_AT + len(held), len(data))
        held += data
    return held, symtab if hidden else b"", strings.data


def write_elf(
    *,
    sections: Sequence[tuple[str, bytes]] = (),
    soname: str = "",
    needed: Sequence[str] = (),
    rpath: str = "",
    runpath: str = "",
    imports: Sequence[Import] = (),
    exports: Sequence[Export] = (),
    machine: int = 62,
    empty_runpath: bool = False,
    hidden: Mapping[str, bytes] | None = None,
) -> bytes:
    """The bytes of a shared object. Addresses equal file offsets; one PT_LOAD covers the file.

    ``empty_runpath`` writes a DT_RUNPATH whose text is empty, as chrpath leaves it. ``hidden`` are local objects, which
    only ``.symtab`` knows, with what they hold.
    """
    strings = _Strings()
    buckets = max(1, len(exports) // 2)
    exports = sorted(exports, key=lambda item: gnu_hash(item.name) % buckets)
    index, verdef, verdefs, verneed, verneeds = _version_records(strings, soname or "self", imports, exports)
    symbols, versions = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0), struct.pack("<H", 0)
    for item in imports:
        symbols += struct.pack("<IBBHQQ", strings.add(item.name), 0x22 if item.weak else 0x12, 0, 0, 0, 0)
        versions += struct.pack("<H", index[item.library, item.version] if item.version else 1)
    held = b""
    for export in exports:
        value = HELD_AT + len(held) if export.data else 64
        held += export.data
        symbols += struct.pack("<IBBHQQ", strings.add(export.name), 0x12, 0, 1, value, len(export.data) or 8)
        versions += struct.pack("<H", index["", export.version] if export.version else 1)
    tags = [(DT_NEEDED, strings.add(name)) for name in needed]
    tags += [(tag, strings.add(v)) for tag, v in ((DT_SONAME, soname), (DT_RPATH, rpath), (DT_RUNPATH, runpath)) if v]
    tags += [(DT_RUNPATH, 0)] if empty_runpath else []
    held, symtab, strtab = _hidden(held, hidden or {})
    blobs: list[tuple[str, int, bytes]] = [
        (".held", SHT_PROGBITS, held),
        (".dynstr", SHT_STRTAB, strings.data),
        (".dynsym", SHT_DYNSYM, symbols),
        (".gnu.hash", 0x6FFFFFF6, _gnu_hash_table(1 + len(imports), exports, buckets)),
        (".gnu.version", 0x6FFFFFFF, versions),
        (".gnu.version_d", 0x6FFFFFFD, verdef),
        (".gnu.version_r", 0x6FFFFFFE, verneed),
    ]
    body, offsets = b"", {}
    for name, _kind, blob in blobs:
        body += b"\0" * (-len(body) % 8)
        offsets[name] = HELD_AT + len(body)
        body += blob
    tables = len(blobs)
    tags += [
        (DT_STRTAB, offsets[".dynstr"]),
        (DT_STRSZ, len(strings.data)),
        (DT_SYMTAB, offsets[".dynsym"]),
        (DT_GNU_HASH, offsets[".gnu.hash"]),
        (DT_VERSYM, offsets[".gnu.version"]),
    ]
    if verdefs:
        tags += [(DT_VERDEF, offsets[".gnu.version_d"]), (DT_VERDEFNUM, verdefs)]
    if verneeds:
        tags += [(DT_VERNEED, offsets[".gnu.version_r"]), (DT_VERNEEDNUM, verneeds)]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in [*tags, (0, 0)])
    blobs.append((".dynamic", SHT_DYNAMIC, dynamic))
    blobs += [(name, SHT_PROGBITS, data) for name, data in sections]
    blobs += [(".symtab", SHT_SYMTAB, symtab), (".strtab", SHT_STRTAB, strtab)] if symtab else []
    for name, _kind, blob in blobs[tables:]:
        body += b"\0" * (-len(body) % 16)
        offsets[name] = HELD_AT + len(body)
        body += blob
    return _assemble(body, blobs, offsets, len(dynamic), machine)


def _assemble(
    body: bytes, blobs: Sequence[tuple[str, int, bytes]], offsets: dict[str, int], dynamic_bytes: int, machine: int
) -> bytes:
    names = _Strings()
    headers = b"\0" * 64
    for name, kind, blob in blobs:
        where, link = offsets[name], len(blobs) if name == ".symtab" else 0
        headers += struct.pack("<IIQQQQIIQQ", names.add(name), kind, 2, where, where, len(blob), link, 0, 8, 0)
    names_at = HELD_AT + len(body)
    names_index = len(blobs) + 1
    name_of_names = names.add(".shstrtab")
    headers += struct.pack("<IIQQQQIIQQ", name_of_names, SHT_STRTAB, 0, 0, names_at, len(names.data), 0, 0, 1, 0)
    body += names.data
    body += b"\0" * (-len(body) % 8)
    table_at = HELD_AT + len(body)
    total = table_at + len(headers)
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", ident, 3, machine, 1, 0, 64, table_at, 0, 64, 56, 2, 64, names_index + 1, names_index
    )
    segments = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, total, total, 4096)
    where = offsets[".dynamic"]
    segments += struct.pack("<IIQQQQQQ", 2, 6, where, where, where, dynamic_bytes, dynamic_bytes, 8)
    return header + segments + body + headers
