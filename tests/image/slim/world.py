"""A writer of shared objects with device code that the system's own dynamic loader loads, and a reader of its memory.

The layout is that of a linked extension module: read-only tables, code, read-only data with the containers, and data
with one wrapper per container that a relative relocation points to it.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from orbit.audit.binary.fatbin import CONTAINER, ENTRY, KINDS, MEANINGFUL, MIN_ENTRY_HEADER_BYTES, arch_name
from orbit.profile.model import GpuTarget

PAGE = 4096
PROGBITS, SYMTAB, STRTAB, RELA, HASH, DYNAMIC, NOBITS, DYNSYM = 1, 2, 3, 4, 5, 6, 8, 11
WRAPPER_MAGIC = 0x466243B1
READ, CODE, DATA = 4, 5, 6
TARGETS = tuple(
    GpuTarget(name=name, devices=(name,), capability=capability, sass=sass, feature=f"{sass}a")
    for name, capability, sass in (("h100", "9.0", "sm_90"), ("b200", "10.0", "sm_100"))
)


@dataclass
class Part:
    """A section while its file is laid out."""

    name: str
    kind: int
    size: int
    segment: int | None = None
    """Index of its loadable segment."""
    align: int = 8
    link: int = 0
    entry_size: int = 0
    offset: int = 0
    address: int = 0
    data: bytes = b""


@dataclass
class Library:
    """What is to be written; :meth:`write` gives the bytes."""

    containers: Sequence[bytes] = ()
    relocatable: Sequence[bytes] = ()
    """For ``__nv_relfatbin``."""
    embedded: bytes = b""
    """``.cask_resource``: containers among other data, which nobody points to."""
    gap: int = 8
    """Zeros behind each container."""
    align: int = PAGE
    """Of the loadable segments."""
    in_place: bool = True
    """Write each pointer's value into its place, too, as GNU ld does for ``.data``."""
    code: bytes = b"\x90" * 64
    phdr: bool = False
    """With a PT_PHDR segment."""
    static_symbols: bool = True
    relocations: Sequence[tuple[str, int, int, int]] = ()
    """Further ones: (section of the place, offset in it, info, addend)."""
    wrapped: int | None = None
    """How many containers get a wrapper; None: all."""
    machine: int = 62
    kind: int = 3
    tags: Sequence[tuple[int, int]] = ()
    """Further entries of the dynamic section."""
    dynamic_symbol: str = ""
    """Section in which a second dynamic symbol lies."""
    parts: list[Part] = field(default_factory=list)

    def find(self, name: str) -> Part:
        """The section of that name, once it has been laid out."""
        return next(part for part in self.parts if part.name == name)

    def write(self) -> bytes:
        """The bytes of the file."""
        boxes = [*self.relocatable, *self.containers][: self.wrapped]
        relocations = len(boxes) + 1 + len(self.relocations)
        relative = b"".join(box + bytes(self.gap) for box in self.relocatable)
        final = b"".join(box + bytes(self.gap) for box in self.containers)
        names = b"\0wrappers\0device\0"
        symbols = 3 if self.dynamic_symbol else 2
        static = 1 + len(self.containers) if self.static_symbols else 0
        self.parts = [
            Part("", 0, 0, align=1),
            Part(".hash", HASH, 12 + 4 * symbols, 0, link=2, entry_size=4),
            Part(".dynsym", DYNSYM, 24 * symbols, 0, link=3, entry_size=24),
            Part(".dynstr", STRTAB, len(names), 0, align=1, data=names),
            Part(".rela.dyn", RELA, 24 * relocations, 0, link=2, entry_size=24),
            Part(".text", PROGBITS, len(self.code), 1, align=16, data=self.code),
            Part(".rodata", PROGBITS, 100, 2, align=32, data=bytes(range(1, 101))),
            Part("__nv_relfatbin", PROGBITS, len(relative), 2, data=relative),
            Part(".nv_fatbin", PROGBITS, len(final), 2, data=final),
            Part(".cask_resource", PROGBITS, len(self.embedded), 2, data=self.embedded),
            Part(".eh_frame", PROGBITS, 300, 2, data=bytes(range(100, 250)) * 2),
            Part(".data.rel.ro", PROGBITS, 16, 3),
            Part(".dynamic", DYNAMIC, 16 * (9 + len(self.tags)), 3, link=3, entry_size=16),
            Part(".nvFatBinSegment", PROGBITS, 24 * len(boxes), 3),
            Part(".bss", NOBITS, 5000, 3, align=32),
            Part(".comment", PROGBITS, 5, align=1, data=b"made\0"),
            Part(".symtab", SYMTAB, 24 * static, link=17, entry_size=24),
            Part(".strtab", STRTAB, 12, align=1, data=b"\0fatbinData\0"),
            Part(".shstrtab", STRTAB, 0, align=1),
        ]
        label = self.find(".shstrtab")
        label.data = b"".join(part.name.encode() + b"\0" for part in self.parts)
        label.size = len(label.data)
        segments = self._lay_out()
        self._fill(boxes, symbols)
        return self._join(segments)

    def _lay_out(self) -> list[tuple[int, ...]]:
        """Give every section its place; the loadable segments as (flags, offset, address, file size, memory size)."""
        at, address = 64 + 56 * (6 + self.phdr), 0
        found: list[tuple[int, ...]] = []
        start = 0
        for number, flags in enumerate((READ, CODE, READ, DATA)):
            if number:
                at += -at % 16
                start = at
                address = address + -address % self.align + self.align + start % self.align
            base, file_end, memory_end = address - start, start, address
            for part in (item for item in self.parts if item.segment == number):
                at += -at % part.align
                part.offset, part.address = at, max(base + at, memory_end)
                at += part.size if part.kind != NOBITS else 0
                file_end = at if part.kind != NOBITS else file_end
                memory_end = part.address + part.size
            found.append((flags, start, base + start, file_end - start, memory_end - base - start))
            address = memory_end
        for part in (item for item in self.parts if item.segment is None and item.name):
            at += -at % part.align
            part.offset = at
            at += part.size
        return found

    def _fill(self, boxes: Sequence[bytes], symbols: int) -> None:
        """Write the tables now that all addresses are known."""
        wrapper = self.find(".nvFatBinSegment")
        places: list[int] = []
        names = [part.name for part in self.parts]
        for name, group in (("__nv_relfatbin", self.relocatable), (".nv_fatbin", self.containers)):
            at = self.find(name).address
            for box in group:
                places.append(at)
                at += len(box) + self.gap
        places = places[: len(boxes)]
        held = places if self.in_place else [0] * len(places)
        wrapper.data = b"".join(struct.pack("<IIQQ", WRAPPER_MAGIC, 1, place, 0) for place in held)
        table = [(wrapper.address + 24 * number + 8, 8, place) for number, place in enumerate(places)]
        table.append((self.find(".data.rel.ro").address, 8, self.find(".text").address))
        table += [(self.find(name).address + inside, info, addend) for name, inside, info, addend in self.relocations]
        self.find(".rela.dyn").data = b"".join(struct.pack("<QQq", *item) for item in table)
        self.find(".data.rel.ro").data = bytes(16)
        chains = [number + 1 if number + 1 < symbols else 0 for number in range(symbols)]
        self.find(".hash").data = struct.pack(f"<III{symbols}I", 1, symbols, 1, 0, *chains[1:])
        dynsym = bytes(24) + struct.pack("<IBBHQQ", 1, 0x11, 0, names.index(".nvFatBinSegment"), wrapper.address, 8)
        if self.dynamic_symbol:
            part = self.find(self.dynamic_symbol)
            dynsym += struct.pack("<IBBHQQ", 10, 0x11, 0, names.index(part.name), part.address, 8)
        self.find(".dynsym").data = dynsym
        if self.static_symbols:
            index = names.index(".nv_fatbin")
            final = places[len(self.relocatable) :]
            final += [self.find(".nv_fatbin").address] * (len(self.containers) - len(final))
            entries = [struct.pack("<IBBHQQ", 1, 0, 0, index, place, 0) for place in final]
            self.find(".symtab").data = bytes(24) + b"".join(entries)
        to = {name: self.find(name).address for name in (".hash", ".dynstr", ".dynsym", ".rela.dyn")}
        tags = [(4, to[".hash"]), (5, to[".dynstr"]), (6, to[".dynsym"]), (10, self.find(".dynstr").size), (11, 24)]
        tags += [(7, to[".rela.dyn"]), (8, self.find(".rela.dyn").size), (9, 24), *self.tags, (0, 0)]
        self.find(".dynamic").data = b"".join(struct.pack("<QQ", *tag) for tag in tags)

    def _join(self, segments: Sequence[tuple[int, ...]]) -> bytes:
        dynamic = self.find(".dynamic")
        headers = [(1, flags, at, to, to, size, memory, self.align) for flags, at, to, size, memory in segments]
        headers.append((2, DATA, dynamic.offset, dynamic.address, dynamic.address, dynamic.size, dynamic.size, 8))
        headers.append((0x6474E551, DATA, 0, 0, 0, 0, 0, 16))
        if self.phdr:
            headers.insert(0, (6, READ, 64, 64, 64, 56 * 7, 56 * 7, 8))
        end = max(part.offset + (0 if part.kind == NOBITS else part.size) for part in self.parts)
        table = end + -end % 8
        ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
        out = bytearray(table)
        out[:64] = struct.pack(
            "<16sHHIQQQIHHHHHH", ident, self.kind, self.machine, 1, 0, 64, table, 0, 64, 56, len(headers), 64,
            len(self.parts), len(self.parts) - 1,
        )  # fmt: skip
        for number, header in enumerate(headers):
            out[64 + 56 * number : 120 + 56 * number] = struct.pack("<IIQQQQQQ", *header)
        name = 0
        for part in self.parts:
            if part.kind != NOBITS:
                assert len(part.data) == part.size, part.name
                out[part.offset : part.offset + part.size] = part.data
            flags = 0 if part.segment is None else {0: 2, 1: 6, 2: 2, 3: 3}[part.segment]
            out += struct.pack(
                "<IIQQQQIIQQ", name, part.kind, flags, part.address, part.offset, part.size, part.link,
                {".dynsym": 1, ".symtab": part.size // 24}.get(part.name, 0), part.align, part.entry_size,
            )  # fmt: skip
            name += len(part.name) + 1
        return bytes(out)


class Memory:
    """What the dynamic loader would have in memory: loadable segments, zeros where they have no bytes, relocated."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        header = struct.unpack("<16sHHIQQQIHHHHHH", data[:64])
        at, count = header[5], header[10]
        self.segments = list(struct.iter_unpack("<IIQQQQQQ", data[at : at + 56 * count]))
        self.loads = [item for item in self.segments if item[0] == 1]
        assert self.loads == sorted(self.loads, key=lambda item: item[3])
        for _kind, _flags, offset, address, _physical, _size, _memory, align in self.loads:
            assert (address - offset) % align == 0
        for one, other in itertools.pairwise(self.loads):
            assert (one[3] + one[6] + PAGE - 1) // PAGE <= other[3] // PAGE, "two segments share a page"

    def read(self, address: int, size: int) -> bytes:
        """The bytes at a virtual address; they are to lie in one segment."""
        for _kind, _flags, offset, start, _physical, stored, memory, _align in self.loads:
            if start <= address and address + size <= start + memory:
                at = address - start
                return self.data[offset + at : offset + min(at + size, stored)].ljust(size, b"\0")
        raise AssertionError(f"nothing at {address:#x}")

    def dynamic(self) -> dict[int, int]:
        """The dynamic section."""
        segment = next(item for item in self.segments if item[0] == 2)
        return dict(struct.iter_unpack("<QQ", self.read(segment[3], segment[5])))

    def relocated(self) -> dict[int, int]:
        """Value by place, for every relative relocation."""
        tags = self.dynamic()
        table = struct.iter_unpack("<QQq", self.read(tags[7], tags[8]))
        return {place: addend for place, info, addend in table if info == 8}

    def container(self, address: int) -> list[tuple[str, bytes]]:
        """(architecture, all bytes of the entry) for the container at a virtual address."""
        magic, _version, header, size = CONTAINER.unpack(self.read(address, CONTAINER.size))
        assert magic == 0xBA55ED50
        body, found, at = self.read(address + header, size), [], 0
        while at < size:
            fields = ENTRY.unpack(body[at : at + MIN_ENTRY_HEADER_BYTES])
            end = at + fields[2] + fields[3]
            found.append((arch_name(KINDS[fields[0]][1], fields[7], fields[8] & MEANINGFUL), body[at:end]))
            at = end
        return found
