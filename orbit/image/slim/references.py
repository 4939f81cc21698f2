"""Who points into the device code of a shared object: what must be known before a container may move.

A registering library names each container once, in a wrapper of ``.nvFatBinSegment``, through a relative relocation
(R_X86_64_RELATIVE): the compiler's host stub, which ``crt/host_runtime.h`` of the toolkit writes. All relative
relocations are listed in the dynamic section; references from code are not, so code is searched for instructions that
take the address of a container or load a word of its headers. Whatever is found besides makes the file one that keeps
its containers in their places.
"""

from __future__ import annotations

import bisect
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from orbit.audit.binary.elf import PT_DYNAMIC, Elf
from orbit.audit.binary.fatbin import HEAD_BYTES
from orbit.image.slim.elf import RawSection, Tables, offset_of

RELA = struct.Struct("<QQq")
ADDEND_AT = 16
DYNAMIC = struct.Struct("<QQ")
DT_PLTRELSZ, DT_RELA, DT_RELASZ, DT_RELAENT, DT_REL, DT_JMPREL, DT_RELR = 2, 7, 8, 9, 17, 23, 36
R_RELATIVE = 8
SHT_DYNSYM, SHT_SYMTAB = 11, 2
SHF_EXECINSTR = 4
SYMBOL = struct.Struct("<IBBHQQ")
STEP_BYTES = 1 << 20

ADDRESSED = re.compile(rb"[\x48\x4c][\x8b\x8d][\x05\x0d\x15\x1d\x25\x2d\x35\x3d]", re.DOTALL)
"""``lea`` and ``mov`` of 64 bits relative to the instruction pointer; a displacement of four bytes follows."""
ADDRESSED_BYTES = 7


class Unmovable(Exception):
    """The containers of a file must keep their places; the text says why. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """One relative relocation whose target lies in a device-code section."""

    entry: int
    """Offset of the relocation entry in the file."""
    slot: int | None
    """Offset of the pointer itself in the file; None when it has no bytes there."""
    target: int
    """Virtual address it points to."""


def pointers(elf: Elf, tables: Tables, spans: Sequence[tuple[int, int]]) -> list[Pointer]:
    """The pointers into the address ranges ``spans``. Raises :class:`Unmovable` for what cannot be followed."""
    found = []
    for start, count in _relocations(elf, tables):
        for entry, place, info, addend in _entries(elf, start, count):
            if any(first <= place < last for first, last in spans):
                raise Unmovable("a relocation writes into the device code itself")
            if info >> 32 or not any(first <= addend < last for first, last in spans):
                continue
            if info & 0xFFFFFFFF != R_RELATIVE:
                raise Unmovable(f"a relocation of type {info & 0xFFFFFFFF} points into the device code")
            found.append(Pointer(entry, offset_of(tables, place, 8), addend))
    return found


def _entries(elf: Elf, start: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    """(offset in the file, place, info, addend) of ``count`` relocations."""
    step = STEP_BYTES // RELA.size
    for first in range(0, count, step):
        base = start + first * RELA.size
        block = elf.data[base : base + min(step, count - first) * RELA.size]
        for position, fields in enumerate(RELA.iter_unpack(block)):
            yield base + position * RELA.size, *fields


def _relocations(elf: Elf, tables: Tables) -> Iterator[tuple[int, int]]:
    """(offset, number) of the relocation tables that the dynamic loader applies."""
    segment = next((item for item in tables.segments if item.kind == PT_DYNAMIC), None)
    if segment is None:
        raise Unmovable("it has no dynamic section")
    size = segment.file_size - segment.file_size % DYNAMIC.size
    tags: dict[int, int] = {}
    for tag, value in DYNAMIC.iter_unpack(elf.data[segment.offset : segment.offset + size]):
        if tag == 0:
            break
        tags[tag] = value
    if DT_RELR in tags or DT_REL in tags:
        raise Unmovable("its relocations are packed (DT_RELR) or without addends (DT_REL)")
    if tags.get(DT_RELAENT, RELA.size) != RELA.size:
        raise Unmovable("its relocation entries have another size")
    for where, length in ((DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)):
        address, stored = tags.get(where, 0), tags.get(length, 0)
        if address and stored:
            at = offset_of(tables, address, stored)
            if at is None or stored % RELA.size:
                raise Unmovable("its relocation table is not in the file")
            yield at, stored // RELA.size


def require_no_code(elf: Elf, tables: Tables, starts: Iterable[int]) -> None:
    """Raise :class:`Unmovable` when an instruction addresses the headers of one of the containers at ``starts``.

    The search knows no instruction borders. In libtorch_cuda's 58 MB of code eight byte sequences look like an address
    somewhere in its 300 MB of device code, none of them like one of a container's first :data:`HEAD_BYTES` bytes, which
    are all that host code could want.
    """
    ordered = sorted(starts)
    for section in tables.sections:
        if section.flags & SHF_EXECINSTR and section.stored:
            for address in _addressed(elf, section):
                place = bisect.bisect_right(ordered, address) - 1
                if place >= 0 and address < ordered[place] + HEAD_BYTES:
                    raise Unmovable(f"code in {section.name} takes the address of a container")


def _addressed(elf: Elf, section: RawSection) -> Iterator[int]:
    """Addresses that instructions of a section may compute."""
    end = section.offset + section.stored
    for start in range(section.offset, end, STEP_BYTES):
        block = elf.data[start : min(start + STEP_BYTES + ADDRESSED_BYTES - 1, end)]
        base = section.address + start - section.offset + ADDRESSED_BYTES
        for match in ADDRESSED.finditer(block, 0, min(len(block), STEP_BYTES + 2)):
            place = match.start()
            if place + ADDRESSED_BYTES <= len(block):
                yield base + place + int.from_bytes(block[place + 3 : place + 7], "little", signed=True)


def symbols_in(elf: Elf, tables: Tables, sections: frozenset[int]) -> Iterator[tuple[int, int, int]]:
    """(offset of the entry in the file, section index, value) of static symbols in sections with those indexes.

    Raises :class:`Unmovable` when a dynamic symbol is there: another library could ask for it by name.
    """
    for table in tables.sections:
        if table.kind not in (SHT_DYNSYM, SHT_SYMTAB) or table.entry_size != SYMBOL.size:
            continue
        step = STEP_BYTES // SYMBOL.size * SYMBOL.size
        for first in range(0, table.stored - table.stored % SYMBOL.size, step):
            size = min(step, table.stored - table.stored % SYMBOL.size - first)
            block = elf.data[table.offset + first : table.offset + first + size]
            for position, fields in enumerate(SYMBOL.iter_unpack(block)):
                if fields[3] in sections:
                    if table.kind == SHT_DYNSYM:
                        raise Unmovable("a dynamic symbol lies in the device code")
                    yield table.offset + first + position * SYMBOL.size, fields[3], fields[4]
