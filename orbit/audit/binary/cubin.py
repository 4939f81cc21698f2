"""Device code as the driver gets it: the kernels of a cubin, and the names in PTX text.

A cubin is an ELF64 file of machine EM_CUDA. Its kernels are the functions marked STO_CUDA_ENTRY in the symbol table,
one code section each. Where the architecture is written depends on the ABI: version 7 (OS ABI 0x33) keeps its number
in the low byte of ``e_flags`` and an ``a`` in bit 11; version 8 (OS ABI 0x41, CUDA 13) keeps the number in the second
byte, and the suffix only in the options that ptxas notes down (``.note.nv.tkinfo``: ``-arch sm_90a``). Sources: LLVM's
``ELF.h`` (EF_CUDA_*), ``cuobjdump -elf``, and 15,000 cubins of the cu130 lock.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from orbit.audit.binary.dynamic import SYMBOL
from orbit.audit.binary.elf import EM_CUDA, HEADER, SECTION, is_elf
from orbit.audit.binary.payload import MalformedImage
from orbit.audit.binary.sass import MAX_STUB_BYTES, Stub, direct_calls, immediates, pointers, stub_of

SHT_SYMTAB, SHT_RELA, SHT_NOTE, SHT_REL, SHT_NOBITS = 2, 4, 7, 9, 8
STT_FUNC = 2
STO_CUDA_ENTRY = 0x10
SHF_MERCURY = 0x10000000
"""Sections of the second, relocatable form of the code that Blackwell cubins carry beside the first."""
MAX_SYMBOLS = 1 << 21
MAX_NAME_BYTES = 1 << 16
MAX_NAMES_BYTES = 1 << 24
MAX_KERNELS = 1 << 16
MAX_NOTES, MAX_NOTE_BYTES = 64, 1 << 16
MAX_POINTERS = 1 << 22
MAX_TEXT_BYTES = 400
POINTER_SECTION = b".nv.constant4\0"
SOURCE_FILE = re.compile(r"\.(?:cu|cuh|h|hpp|inl|cpp)$")
"""An assertion names its file beside what it asserts."""
CALLEES = frozenset({b"vprintf", b"__assertfail"})
"""What printf and assert become in device code."""
ARCH_OPTION = re.compile(rb"-arch (sm_\d+[af]?)\b")
PTX_ENTRY = re.compile(rb"^[ \t]*(?:\.\w+[ \t]+)*?\.entry[ \t]+([\w$.]+)", re.MULTILINE)
PTX_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+sm_(\d+[af]?)\b", re.MULTILINE)


class Kernel(NamedTuple):
    """One kernel of one image."""

    name: str
    """Mangled, as the host code asks for it."""
    code_bytes: int
    """Machine code; 0 for PTX."""
    stub: Stub
    says: str
    """What a kernel that prints or asserts says; for a working one the guard text it holds. Empty: nothing."""


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The content of one image."""

    arch: str
    """As the content itself states it: ``sm_90a``, ``compute_90``; ``sm_100*`` when it names no suffix and no lack of
    one; empty when it says nothing."""
    kernels: tuple[Kernel, ...]


def read_ptx(text: bytes) -> DeviceCode:
    """Target and entry points of PTX text, as many as :data:`MAX_KERNELS`; what is not there is not found."""
    target = PTX_TARGET.search(text)
    names: dict[bytes, None] = {}
    spent = 0
    for match in PTX_ENTRY.finditer(text):
        spent += match.end(1) - match.start(1)
        if len(names) >= MAX_KERNELS or spent > MAX_NAMES_BYTES:
            break
        names[match[1]] = None
    return DeviceCode(
        f"compute_{target[1].decode()}" if target else "",
        tuple(Kernel(name.decode(), 0, "", "") for name in names),
    )


def read_cubin(data: bytes, label: str, guards: re.Pattern[bytes] | None = None) -> DeviceCode:
    """The kernels of a cubin in the order of its symbols.

    ``guards`` finds the texts by which code says that it was compiled for the wrong architecture; working kernels
    that hold one have it in ``says``. Raises :class:`MalformedImage` naming ``label``.
    """
    return DeviceCode(*_Cubin(data, label).read(guards))


class _Raw(NamedTuple):
    """A section header as it is in the file (see :data:`orbit.audit.binary.elf.SECTION`)."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_bytes: int


class _Cubin:
    def __init__(self, data: bytes, label: str) -> None:
        self.data, self.label = data, label
        if len(data) < HEADER.size or not is_elf(data[:6]):
            raise self.bad("not an ELF file")
        head = HEADER.unpack_from(data)
        ident, machine, table, self.flags, entry_bytes, count, self.names_index = (
            head[number] for number in (0, 2, 6, 7, 11, 12, 13)
        )
        self.abi = ident[8]
        if machine != EM_CUDA:
            raise self.bad(f"machine {machine} instead of {EM_CUDA}")
        if count and (entry_bytes != SECTION.size or table + count * SECTION.size > len(data)):
            raise self.bad(f"{count} section headers of {entry_bytes} bytes at {table} do not fit")
        rows = SECTION.iter_unpack(data[table : table + count * SECTION.size])
        self.sections = [_Raw(*row) for row in rows] if count else []
        self.scanned = 0  # bytes of code looked through for guards: without overlaps no more than there are

    def bad(self, what: str) -> MalformedImage:
        return MalformedImage(f"{self.label}: cubin: {what}")

    def content(self, section: _Raw) -> bytes:
        if section.kind == SHT_NOBITS:
            return b""
        if section.offset + section.size > len(self.data):
            raise self.bad(f"a section of {section.size} bytes at {section.offset} lies outside {len(self.data)} bytes")
        return self.data[section.offset : section.offset + section.size]

    def at(self, index: int) -> _Raw:
        if index >= len(self.sections):
            raise self.bad(f"section {index} of {len(self.sections)} is asked for")
        return self.sections[index]

    def read(self, guards: re.Pattern[bytes] | None) -> tuple[str, tuple[Kernel, ...]]:
        table = next((s for s in self.sections if s.kind == SHT_SYMTAB and not s.flags & SHF_MERCURY), None)
        if table is None:
            return self.arch(), ()
        if table.size // SYMBOL.size > MAX_SYMBOLS:
            raise self.bad(f"{table.size // SYMBOL.size} symbols")
        raw = self.content(table)
        symbols = list(SYMBOL.iter_unpack(raw[: len(raw) // SYMBOL.size * SYMBOL.size]))
        names = self.content(self.at(table.link))
        links = _Links(self, symbols, names)
        if guards is not None and not (links.prints and guards.search(links.texts)):
            guards = None
        kernels: list[Kernel] = []
        spent = 0
        for name_at, info, other, index, value, size in symbols:
            if info & 15 != STT_FUNC or not other & STO_CUDA_ENTRY or not index:
                continue
            name = _name(names, name_at)
            spent += len(name)
            if spent > MAX_NAMES_BYTES or len(kernels) >= MAX_KERNELS:
                raise self.bad(f"more than {MAX_KERNELS} kernels, or names of more than {MAX_NAMES_BYTES} bytes")
            kernels.append(self.kernel(name, index, start=value, size=size, links=links, guards=guards))
        return self.arch(), tuple(kernels)

    def kernel(
        self, name: bytes, index: int, *, start: int, size: int, links: _Links, guards: re.Pattern[bytes] | None
    ) -> Kernel:
        section = self.at(index)
        room = section.size if section.kind != SHT_NOBITS else 0
        start = start if start < room else 0
        size = min(size, room - start) or room - start
        if section.offset + room > len(self.data):
            raise self.bad(f"the code of {name.decode(errors='replace')} lies outside the file")
        whole = section.offset + start
        stub, says = stub_of(self.data[whole : whole + size]) if size <= MAX_STUB_BYTES else "", ""
        if stub == "message":
            stub, says = links.explain(self.data[whole : whole + size], links.within(index, start, size), index)
        if not stub and guards is not None:
            self.scanned += size
            if self.scanned > len(self.data):
                raise self.bad("kernels overlap")
            says = links.guard(self.data[whole : whole + size], links.within(index, start, size), guards)
        return Kernel(name.decode("utf-8", "backslashreplace"), size, stub, says)

    def arch(self) -> str:
        number = self.flags >> 8 & 0xFF if self.abi >= 8 else self.flags & 0xFF
        stated = f"sm_{number}"
        notes = (section for section in self.sections if section.kind == SHT_NOTE)
        for section in islice(notes, MAX_NOTES):
            text = self.data[section.offset : section.offset + min(section.size, MAX_NOTE_BYTES)]
            if match := ARCH_OPTION.search(text):
                option = match[1].decode()
                return option if option.rstrip("af") == stated else f"{stated}*"
        if self.abi < 8:
            return f"{stated}a" if self.flags & 0x800 else stated
        return f"{stated}a" if self.flags & 0x8 else f"{stated}*"


class _Links:
    """What the linker and the driver write into a cubin: which symbol's address goes where."""

    def __init__(self, cubin: _Cubin, symbols: list[tuple[int, int, int, int, int, int]], names: bytes) -> None:
        self.cubin, self.symbols, self.names = cubin, symbols, names

    @cached_property
    def prints(self) -> bool:
        """Whether the cubin asks the driver for printf or assert at all."""
        return any(b"\0%b\0" % name in self.names for name in CALLEES)

    @cached_property
    def places(self) -> dict[int, dict[int, int]]:
        """Number of the symbol by the offset its address is written to, for each section by its number."""
        found: dict[int, dict[int, int]] = {}
        count = 0
        for section in self.cubin.sections:
            if section.kind not in (SHT_RELA, SHT_REL) or section.flags & SHF_MERCURY:
                continue
            width = 24 if section.kind == SHT_RELA else 16
            count += section.size // width
            if count > MAX_POINTERS:
                raise self.cubin.bad(f"{count} relocations, more than {MAX_POINTERS}")
            raw = self.cubin.content(section)
            into = found.setdefault(section.info, {})
            for at in range(0, len(raw) // width * width, width):
                into[int.from_bytes(raw[at : at + 8], "little")] = int.from_bytes(raw[at + 12 : at + 16], "little")
        return found

    @cached_property
    def ordered(self) -> dict[int, list[tuple[int, int]]]:
        """:attr:`places`, in the order of the offsets."""
        return {index: sorted(places.items()) for index, places in self.places.items()}

    @cached_property
    def bank(self) -> dict[int, int]:
        """The pointer bank (``.nv.constant4``): number of a symbol by its offset there."""
        titles = self.cubin.content(self.cubin.at(self.cubin.names_index))
        found: dict[int, int] = {}
        for index, places in self.places.items():
            title = self.cubin.at(index).name
            if titles[title : title + len(POINTER_SECTION)] == POINTER_SECTION:
                found.update(places)
        return found

    def within(self, index: int, start: int, size: int) -> dict[int, int]:
        """Symbols written into a part of a section, by the offset in that part."""
        places = self.ordered.get(index, [])
        low = bisect_left(places, (start, 0))
        return {at - start: number for at, number in places[low : bisect_left(places, (start + size, 0))]}

    def name(self, number: int) -> bytes:
        """The name of a symbol; empty when there is none of that number."""
        return _name(self.names, self.symbols[number][0]) if number < len(self.symbols) else b""

    def is_function(self, number: int) -> bool:
        """Whether a symbol is a function."""
        return number < len(self.symbols) and self.symbols[number][1] & 15 == STT_FUNC

    def text(self, number: int) -> str:
        """The text at a symbol; empty when there is none."""
        if number >= len(self.symbols) or self.is_function(number):
            return ""
        index, value = self.symbols[number][3:5]
        section = self.cubin.sections[index] if 0 < index < len(self.cubin.sections) else None
        if section is None or section.kind == SHT_NOBITS or value >= section.size:
            return ""
        start = section.offset + value
        text = self.cubin.data[start : min(start + MAX_TEXT_BYTES, section.offset + section.size)].partition(b"\0")[0]
        return text.strip().decode() if text.isascii() else ""

    def used(self, code: bytes, moved: dict[int, int]) -> list[int]:
        """Symbols that ``code`` takes addresses of, by the pointer bank or directly (``moved``)."""
        through = (self.bank[offset] for offset in sorted(pointers(code)) if offset in self.bank)
        return list(dict.fromkeys([*through, *moved.values()]))

    def guard(self, code: bytes, moved: dict[int, int], guards: re.Pattern[bytes]) -> str:
        """The first text in ``code`` that ``guards`` finds something in."""
        texts = (self.text(number) for number in self.used(code, moved))
        return next((text for text in texts if guards.search(text.encode())), "")

    @cached_property
    def texts(self) -> bytes:
        """All texts that addresses are taken of."""
        numbers = {number for places in self.places.values() for number in places.values()}
        return "\0".join(self.text(number) for number in numbers).encode()

    def explain(self, code: bytes, moved: dict[int, int], index: int) -> tuple[Stub, str]:
        """(``message`` when all that ``code`` of section ``index`` calls is printf or assert, what it says); else it
        calls something of its own and works."""
        direct = [moved.get(at, len(self.symbols)) for at in direct_calls(code)]
        if not self.prints or any(self.name(number) not in CALLEES for number in direct):
            return "", ""
        numbers = self.used(code, moved)
        indexed = (self.bank[offset] for offset in immediates(code) if offset in self.bank)
        # a place inside the kernel itself is where a call returns to
        functions = [n for n in {*numbers, *indexed} if self.is_function(n) and self.symbols[n][3] != index]
        texts = [text for number in numbers if (text := self.text(number)) and not SOURCE_FILE.search(text)]
        # the place of the function may be worked out in ways that are not followed here; then the text must be there
        if any(self.name(number) not in CALLEES for number in functions) or not (functions or texts):
            return "", ""
        return "message", max(texts, key=lambda text: ("%" not in text, len(text)), default="")


def _name(table: bytes, at: int) -> bytes:
    """The NUL-terminated string at ``at``, cut off at a length no compiler gives."""
    end = table.find(b"\0", at, at + MAX_NAME_BYTES)
    return table[at : end if end >= 0 else at + MAX_NAME_BYTES]
