"""The tables of an ELF64 file with every field, which whoever writes them back needs; and who owns which bytes.

:mod:`orbit.audit.binary.elf` reads and checks a file; this gives its program headers and section headers as they lie.
Layout: System V ABI, "Object Files".
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from orbit.audit.binary.elf import HEADER, PT_LOAD, SECTION, SEGMENT, SHT_NOBITS, Elf, MalformedElf

PT_PHDR = 6
PT_GNU_STACK = 0x6474E551
PT_GNU_RELRO = 0x6474E552
COVERS_OTHERS = frozenset({PT_LOAD, PT_GNU_STACK, PT_GNU_RELRO})
"""Segments that span sections or nothing; every other one is a thing of its own."""
EXTENDED = 0xFFFF
"""``e_phnum`` of a file with more program headers than fit the field."""

PHOFF_AT, SHOFF_AT, PHNUM_AT = 32, 40, 56
"""Where these fields are in the file header."""
SH_OFFSET_AT, SH_SIZE_AT = 24, 32
"""Where these fields are in a section header."""

type Range = tuple[int, int]
"""Offset of the first byte and of the one after the last."""


class RawSegment(NamedTuple):
    """One program header."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int
    align: int

    @property
    def file_end(self) -> int:
        """Offset behind its last byte in the file."""
        return self.offset + self.file_size


class RawSection(NamedTuple):
    """One section header, by the name it has in the table of names."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int

    @property
    def stored(self) -> int:
        """Bytes in the file."""
        return 0 if self.kind == SHT_NOBITS else self.size


@dataclass(frozen=True, slots=True)
class Tables:
    """All headers of a file."""

    segments_at: int
    sections_at: int
    segments: tuple[RawSegment, ...]
    sections: tuple[RawSection, ...]

    def device(self, names: Sequence[str]) -> list[tuple[int, RawSection]]:
        """(index, section) of the sections with bytes that have one of ``names``, in file order."""
        found = [(at, item) for at, item in enumerate(self.sections) if item.name in names and item.stored]
        return sorted(found, key=lambda item: item[1].offset)


def read_tables(elf: Elf) -> Tables:
    """The tables of an open file. Raises :class:`MalformedElf` where the audit's reader does."""
    elf.segments()  # checks the sizes of headers and of what they name
    named = elf.sections()
    fields = HEADER.unpack(elf.data[: HEADER.size])
    segments_at, sections_at, count = fields[5], fields[6], fields[10]
    if count == EXTENDED:
        raise MalformedElf(f"{elf.label}: more than {EXTENDED - 1} program headers")
    table = elf.data[segments_at : segments_at + count * SEGMENT.size]
    segments = tuple(RawSegment(*item) for item in SEGMENT.iter_unpack(table))
    table = elf.data[sections_at : sections_at + len(named) * SECTION.size] if named else b""
    raw = SECTION.iter_unpack(table)
    sections = tuple(RawSection(item.name, *fields[1:]) for item, fields in zip(named, raw, strict=True))
    return Tables(segments_at, sections_at, segments, sections)


def require_alone(elf: Elf, tables: Tables, mine: Sequence[RawSection]) -> None:
    """Refuse a file in which bytes of the sections ``mine`` belong to something else as well.

    No linker makes such a file; a liar would, to have us overwrite the rest. Raises :class:`MalformedElf`.
    """
    owned = sorted((item.offset, item.offset + item.stored, item.name) for item in mine)
    for one, other in itertools.pairwise(owned):
        if other[0] < one[1]:
            raise MalformedElf(f"{elf.label}: the sections {one[2]} and {other[2]} overlap")
    starts = [item[0] for item in owned]
    for start, end, what in _others(tables, frozenset(map(id, mine))):
        place = bisect.bisect_left(starts, end) - 1
        if place >= 0 and owned[place][1] > start:
            raise MalformedElf(f"{elf.label}: {what} lies in the section {owned[place][2]}")


def _others(tables: Tables, mine: frozenset[int]) -> Iterator[tuple[int, int, str]]:
    """(start, end, what) of all that has bytes of its own in the file."""
    yield 0, HEADER.size, "the file header"
    ends = tables.segments_at + len(tables.segments) * SEGMENT.size
    if tables.segments:
        yield tables.segments_at, ends, "the table of program headers"
    if tables.sections:
        yield tables.sections_at, tables.sections_at + len(tables.sections) * SECTION.size, "the section table"
    for section in tables.sections:
        if section.stored and id(section) not in mine:
            yield section.offset, section.offset + section.stored, f"the section {section.name or '(no name)'}"
    for segment in tables.segments:
        if segment.file_size and segment.kind not in COVERS_OTHERS:
            yield segment.offset, segment.file_end, f"a segment of type {segment.kind:#x}"


def offset_of(tables: Tables, address: int, size: int) -> int | None:
    """Where the ``size`` bytes at a virtual address lie in the file; None when a segment does not have them all."""
    for segment in tables.segments:
        if segment.kind == PT_LOAD and segment.address <= address:
            inside = address - segment.address
            if inside + size <= segment.file_size:
                return segment.offset + inside
    return None
