"""Taking freed device code out of a file without moving anything else in memory.

The containers that stay move together at the start of their section, and the wrappers that point to them follow. What
is freed then lies in one piece at the section's end. The loadable segment around it is split there in two: the pages
in between belong to no segment any more, and what comes behind keeps its virtual addresses while its place in the file
moves down by a multiple of every segment's alignment.

    before   [ text | rodata | A......B.....C....  | eh_frame | data ]
    file     [ text | rodata | ABC headers | eh_frame | data ]
    memory   [ text | rodata | ABC headers |   (nothing)     | eh_frame | data ]

The table of program headers grows by one for each cut, so a new one is written behind the containers, in memory as in
the file (the dynamic loader takes it from wherever ``e_phoff`` says). Only shared objects for x86-64 are cut.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from orbit.audit.binary.elf import PT_LOAD, SEGMENT, Elf
from orbit.audit.binary.fatbin import SECTIONS
from orbit.image.slim.edition import (
    U64,
    Copy,
    Edition,
    Fill,
    Patch,
    Piece,
    Write,
    kept_pieces,
    merged,
    size_of,
    size_patch,
)
from orbit.image.slim.elf import (
    EXTENDED,
    PHNUM_AT,
    PHOFF_AT,
    PT_PHDR,
    SH_OFFSET_AT,
    SH_SIZE_AT,
    SHOFF_AT,
    RawSection,
    RawSegment,
    Tables,
)
from orbit.image.slim.facts import ContainerPlan
from orbit.image.slim.references import (
    ADDEND_AT,
    Pointer,
    Unmovable,
    pointers,
    require_no_code,
    symbols_in,
)

ET_DYN = 3
EM_X86_64 = 62
PAGE_BYTES = 4096
CONTAINER_ALIGN = 8
"""As the compiler's host stub asks for (``.align 8``)."""
SYMBOL_VALUE_AT = 8


@dataclass(frozen=True, slots=True)
class Cut:
    """One device-code section and what leaves the file at its end. Offsets are those of the old file."""

    index: int
    """Of the section."""
    section: RawSection
    segment: RawSegment
    """The loadable segment around it."""
    pieces: tuple[Piece, ...]
    """The section's containers, moved together."""
    moved: dict[int, int] = field(repr=False)
    """New virtual address of each container by its old one."""
    kept: int
    """Bytes of the section that stay."""
    table: int
    """Bytes behind them for the table of program headers; 0 where it is not."""
    resume: int
    """Offset of the page with which the second half of the segment begins."""
    removed: int
    """Bytes that leave the file."""

    @property
    def table_at(self) -> int:
        """Where the table of program headers goes, if it does."""
        return self.section.offset + _aligned(self.kept)

    @property
    def stop(self) -> int:
        """End of the first half of the segment."""
        return self.table_at + self.table if self.table else self.section.offset + self.kept

    @property
    def section_end(self) -> int:
        """End of the section."""
        return self.section.offset + self.section.stored


def shrink(elf: Elf, tables: Tables, containers: Sequence[ContainerPlan]) -> Edition:
    """The shorter edition of a file. Raises :class:`Unmovable` when its containers must keep their places."""
    if elf.kind != ET_DYN or elf.machine != EM_X86_64:
        raise Unmovable("only shared objects for x86-64 are cut")
    cuts = _cuts(tables, containers)
    if not cuts:
        raise Unmovable(f"less is freed than its segments are aligned to ({_step(tables)} bytes)")
    spans = [(cut.section.address, cut.section.address + cut.section.size) for cut in cuts]
    moved = {old: new for cut in cuts for old, new in cut.moved.items()}
    found = pointers(elf, tables, spans)
    targets = {pointer.target for pointer in found}
    if not targets <= moved.keys():
        raise Unmovable("a pointer leads into the middle of a container")
    if not moved.keys() <= targets:
        raise Unmovable("no wrapper names one of the containers: something else must know its place")
    require_no_code(elf, tables, moved)
    patches = [*_pointer_patches(elf, found, moved), *_symbol_patches(elf, tables, cuts)]
    patches += _header_patches(tables, cuts)
    patches += [size_patch(container) for container in containers if container.removed_bytes]
    return _assemble(elf.size, tables, containers, cuts=cuts, patches=patches)


def _cuts(tables: Tables, containers: Sequence[ContainerPlan]) -> list[Cut]:
    """The sections from which at least a page leaves the file, in file order."""
    step = _step(tables)
    room = (len(tables.segments) + len(SECTIONS)) * SEGMENT.size
    found: list[Cut] = []
    for index, section in tables.device(SECTIONS):
        inside = [box for box in containers if section.offset <= box.offset < section.offset + section.stored]
        if any(box.removed_bytes for box in inside):
            cut = _cut(tables, index, inside, step=step, table=0 if found else room)
            if cut is not None:
                found.append(cut)
    return found


def _step(tables: Tables) -> int:
    """What leaves the file is a multiple of this: the largest alignment of a loadable segment, at least a page."""
    aligns = [max(item.align, 1) for item in tables.segments if item.kind == PT_LOAD]
    if any(align & (align - 1) for align in aligns):
        raise Unmovable("a segment's alignment is no power of two")
    return max([PAGE_BYTES, *aligns])


def _cut(tables: Tables, index: int, inside: Sequence[ContainerPlan], *, step: int, table: int) -> Cut | None:
    """The cut at the end of the section ``index``; None when it would free nothing.

    ``step``: what leaves the file is a multiple of it. ``table``: bytes to hold ready for the program headers.
    """
    section = tables.sections[index]
    pieces: list[Piece] = []
    moved: dict[int, int] = {}
    at = inside[0].offset - section.offset  # as far as the first container is from the start, it stays
    pieces.append(Copy(section.offset, at))
    for box in inside:
        pieces.append(Fill(-(section.address + at) % CONTAINER_ALIGN))
        at += size_of(pieces[-1])
        moved[box.offset - section.offset + section.address] = section.address + at
        pieces += kept_pieces(box)
        at += box.size - box.removed_bytes
    end = section.offset + section.stored
    segment = _around(tables, section)
    resume = end - (section.address + section.stored) % PAGE_BYTES
    stop = section.offset + (_aligned(at) + table if table else at)
    removed = (resume - stop) // step * step
    if removed <= 0:
        return None
    return Cut(index, section, segment, tuple(pieces), moved, at, table, resume, removed)


def _around(tables: Tables, section: RawSection) -> RawSegment:
    """The one loadable segment that has all bytes of a section."""
    end = section.offset + section.stored
    found = [
        item
        for item in tables.segments
        if item.kind == PT_LOAD and item.offset < end and section.offset < item.file_end
    ]
    if len(found) != 1 or not (found[0].offset <= section.offset and end <= found[0].file_end):
        raise Unmovable(f"the section {section.name} does not lie in one segment")
    if any(
        item.file_size and item.kind != PT_LOAD and item.offset < end and section.offset < item.file_end
        for item in tables.segments
    ):
        raise Unmovable(f"the section {section.name} is part of another segment as well")
    if section.address - section.offset != found[0].address - found[0].offset:
        raise Unmovable(f"the section {section.name} is not where its segment is loaded")
    return found[0]


def _shift(cuts: Sequence[Cut], offset: int) -> int:
    """By how much the byte at ``offset`` of the old file moves down."""
    return sum(cut.removed for cut in cuts if offset >= cut.resume)


def new_segments(tables: Tables, cuts: Sequence[Cut]) -> list[RawSegment]:
    """The program headers of the new file."""
    table = next(cut for cut in cuts if cut.table)
    found: list[RawSegment] = []
    for item in tables.segments:
        if item.kind == PT_LOAD:
            found += _halves(item, [cut for cut in cuts if cut.segment is item], cuts)
        elif item.kind == PT_PHDR:
            address = table.section.address + table.table_at - table.section.offset
            found.append(item._replace(offset=table.table_at, address=address, physical=address))
        else:
            found.append(item._replace(offset=item.offset - _shift(cuts, item.offset)))
    size = len(found) * SEGMENT.size
    return [item._replace(file_size=size, memory_size=size) if item.kind == PT_PHDR else item for item in found]


def _halves(segment: RawSegment, own: Sequence[Cut], cuts: Sequence[Cut]) -> Iterator[RawSegment]:
    """A loadable segment without what its cuts take out."""
    done = 0
    for cut in own:
        yield _part(segment, done, cut.stop - segment.offset, cuts)
        done = cut.resume - segment.offset
    if not own or segment.memory_size > done:
        last = _part(segment, done, segment.file_size, cuts)
        yield last._replace(memory_size=segment.memory_size - done)


def _part(segment: RawSegment, first: int, last: int, cuts: Sequence[Cut]) -> RawSegment:
    offset = segment.offset + first
    return segment._replace(
        offset=offset - _shift(cuts, offset),
        address=segment.address + first,
        physical=segment.physical + first,
        file_size=last - first,
        memory_size=last - first,
    )


def _pointer_patches(elf: Elf, found: Sequence[Pointer], moved: dict[int, int]) -> Iterator[Patch]:
    """New targets of the relocations, and of the pointers themselves where the linker wrote them there as well."""
    for pointer in found:
        target = moved[pointer.target]
        if target != pointer.target:
            yield pointer.entry + ADDEND_AT, struct.pack("<q", target)
            if pointer.slot is not None and elf.data[pointer.slot : pointer.slot + 8] == U64.pack(pointer.target):
                yield pointer.slot, U64.pack(target)


def _symbol_patches(elf: Elf, tables: Tables, cuts: Sequence[Cut]) -> Iterator[Patch]:
    """New values of the static symbols in the sections (``fatbinData``): for debuggers, nobody loads them."""
    sections = {cut.index: cut for cut in cuts}
    for entry, index, value in symbols_in(elf, tables, frozenset(sections)):
        cut = sections[index]
        kept_end = cut.section.address + cut.kept
        new = cut.moved.get(value, min(value, kept_end))
        if new != value:
            yield entry + SYMBOL_VALUE_AT, U64.pack(new)


def _header_patches(tables: Tables, cuts: Sequence[Cut]) -> Iterator[Patch]:
    """The file header and the section headers."""
    count = len(new_segments(tables, cuts))
    if count >= EXTENDED:
        raise Unmovable("it has too many program headers")
    yield PHOFF_AT, U64.pack(next(cut.table_at for cut in cuts if cut.table))
    yield PHNUM_AT, struct.pack("<H", count)
    yield SHOFF_AT, U64.pack(tables.sections_at - _shift(cuts, tables.sections_at))
    by_index = {cut.index: cut for cut in cuts}
    for index, section in enumerate(tables.sections):
        header = tables.sections_at + index * 64
        if shift := _shift(cuts, section.offset):
            yield header + SH_OFFSET_AT, U64.pack(section.offset - shift)
        if index in by_index:
            yield header + SH_SIZE_AT, U64.pack(by_index[index].kept)


def _assemble(
    size: int, tables: Tables, containers: Sequence[ContainerPlan], *, cuts: Sequence[Cut], patches: list[Patch]
) -> Edition:
    """All pieces in order: cut sections, containers that keep their places, and what lies between."""
    table = b"".join(SEGMENT.pack(*item) for item in new_segments(tables, cuts))
    regions: list[tuple[int, int, list[Piece]]] = []
    for cut in cuts:
        pieces = list(cut.pieces)
        if cut.table:
            pieces += [Fill(cut.table_at - cut.section.offset - cut.kept), Write(table), Fill(cut.table - len(table))]
        pieces.append(Fill(cut.section_end - cut.removed - cut.stop))
        regions.append((cut.section.offset, cut.section_end, pieces))
    regions += [
        (box.offset, box.offset + box.size, [*kept_pieces(box), Fill(box.removed_bytes)])
        for box in containers
        if box.removed_bytes and not any(cut.section.offset <= box.offset < cut.section_end for cut in cuts)
    ]
    whole: list[Piece] = []
    at = 0
    for start, end, pieces in sorted(regions, key=lambda region: region[0]):
        whole += [Copy(at, start - at), *pieces]
        at = end
    whole.append(Copy(at, size - at))
    patches.sort()
    for one, other in itertools.pairwise(patches):
        if one[0] + len(one[1]) > other[0]:
            raise Unmovable("two of the fields to change overlap")
    named = frozenset(address for cut in cuts for address in cut.moved.values())
    size -= sum(cut.removed for cut in cuts)
    return Edition("shrink", tuple(merged(whole)), tuple(patches), size, named=named)


def _aligned(offset: int) -> int:
    return offset + -offset % CONTAINER_ALIGN
