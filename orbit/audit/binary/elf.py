"""A reader of ELF64 little-endian files over any buffer: sections, and what the dynamic loader sees.

Nothing here builds objects for what nobody asked for: opening a file reads one 64-byte header, sections and dynamic
facts are read on demand. Every offset that a file states is checked against the file's size before it is used, so a
truncated or lying file raises :class:`MalformedElf` and nothing else.

Source of the layout: the System V ABI (gABI, "Object Files") and, for symbol versions and DT_GNU_HASH, the Linux
Standard Base core specification and glibc's ``elf/dl-lookup.c``.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, overload

from orbit.errors import InputError

MAGIC = b"\x7fELF"
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SEGMENT = struct.Struct("<IIQQQQQQ")
MAX_NAME_BYTES = 65536
MAX_SECTIONS = 1 << 20
MAX_SECTION_NAMES = 64 << 20
"""Bytes of the table of section names, and of all names together (sections may share one)."""

BLOCK_BYTES = 1 << 14
MAX_BLOCKS = 1024
"""So many blocks of a file are kept at a time: the names of libtorch_cpu's symbols take 600."""
MAX_FILE_BYTES = 1 << 34
"""Larger files (sparse ones, mostly) are not read; the largest library of the cu130 lock has 1 GB."""
MAX_PIECE_BYTES = 1 << 30
"""Nothing that is read of a file at once is larger."""
SHT_NOBITS = 8
PT_LOAD = 1
PT_DYNAMIC = 2
EM_CUDA = 190
SHT_CUDA_SHARED = 0x7000000A
"""Static shared memory of a kernel in relocatable device code (nvcc 13.0 -rdc=true): a size, and no bytes."""


class Buffer(Protocol):
    """The bytes of a file: ``bytes``, an ``mmap``, or what was kept of a stream (``orbit.audit.binary.sparse``).

    A slice gives bytes, shorter than asked at the end of the file, as ``bytes`` does it.
    """

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...

    def find(self, sub: bytes, start: int = ..., end: int = ..., /) -> int:
        """The position of ``sub`` in the given range, or -1."""


class MappedFile(mmap.mmap):
    """A file on disk in memory, for tar streams that are passed on as they lie; it can also be read with pread.

    Reading 64 bytes here and there of a large file costs a tenth of touching its pages through the map.
    """

    handle: int
    """An open descriptor of the file."""


type ReadAt = Callable[[int, int], bytes]
"""``read(size, offset)``: at most ``size`` bytes, fewer at the end of the data."""


def read_at(data: Buffer) -> ReadAt:
    """The cheapest way to read scattered small pieces of ``data``: its own ``read_at`` where it has one."""
    if isinstance(data, MappedFile):
        return functools.partial(os.pread, data.handle)
    if isinstance(data, FileBuffer):
        return ahead(data.read_at)
    own: ReadAt | None = getattr(data, "read_at", None)
    if own is not None:
        return own
    return lambda size, offset: data[offset : offset + size]


def ahead(read: ReadAt) -> ReadAt:
    """``read`` with half a kilobyte of what lies behind each piece read along.

    The header of a container and that of its first image then come with one system call, and a call costs as much as
    copying a kilobyte.
    """
    base, kept = 0, b""

    def piece(size: int, offset: int) -> bytes:
        nonlocal base, kept
        start = offset - base
        if start < 0 or start + size > len(kept):
            kept = read(max(size, AHEAD_BYTES), offset)
            base, start = offset, 0
        return kept[start : start + size]

    return piece


AHEAD_BYTES = 512


class MalformedBinary(InputError):
    """A binary file states something that cannot be true of it: truncated, bad magic, sizes out of bounds."""

    def __init__(self, what: str) -> None:
        super().__init__(what, fix="the file is damaged or not what its name says: install its distribution again")


class MalformedElf(MalformedBinary):
    """The ELF structures of a file contradict each other or its size."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section header. ``offset`` and ``size`` are bytes in the file, already known to lie inside it.

    A section without bytes in the file (SHT_NOBITS: ``.bss``, everything in a file of debug information) has size 0.
    """

    name: str
    kind: int
    address: int
    offset: int
    size: int
    link: int
    entry_size: int


@dataclass(frozen=True, slots=True)
class Segment:
    """One program header. ``file_size`` bytes at ``offset`` of the file appear at ``address`` in memory."""

    kind: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    align: int = 1
    """As stated: ``offset`` and ``address`` are to be equal modulo it."""


class Elf:
    """An ELF64 little-endian file in ``data``; ``label`` names it in errors. Raises :class:`MalformedElf`."""

    def __init__(self, data: Buffer, label: str) -> None:
        self.data = data
        self.label = label
        self.size = len(data)
        if self.size < HEADER.size:
            raise MalformedElf(f"{label}: {self.size} bytes, too short for an ELF header")
        (ident, self.kind, self.machine, _version, _entry, self._phoff, self._shoff, self.flags, _ehsize) = (
            HEADER.unpack(data[: HEADER.size])[:9]
        )
        self._phentsize, self._phnum, self._shentsize, self._shnum, self._shstrndx = HEADER.unpack(data[: HEADER.size])[
            9:
        ]
        if ident[:4] != MAGIC:
            raise MalformedElf(f"{label}: does not start with the ELF magic")
        if ident[4] != 2 or ident[5] != 1:
            raise MalformedElf(f"{label}: not a 64-bit little-endian ELF file")
        self.os_abi: int = ident[7]
        self.abi_version: int = ident[8]

    def require(self, offset: int, size: int, what: str) -> None:
        """Check that ``size`` bytes at ``offset`` lie inside the file."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise MalformedElf(
                f"{self.label}: {what} at {offset} of {size} bytes lies outside the file of {self.size} bytes"
            )

    def sections(self) -> tuple[Section, ...]:
        """All section headers; empty for a file stripped of them."""
        if self._shoff == 0:
            return ()
        if self._shentsize != SECTION.size:
            raise MalformedElf(f"{self.label}: section headers of {self._shentsize} bytes instead of {SECTION.size}")
        count, names_index = self._shnum, self._shstrndx
        if count == 0 or names_index == 0xFFFF:
            # extended numbering: the real values are in section 0
            self.require(self._shoff, SECTION.size, "section header 0")
            first = SECTION.unpack(self.data[self._shoff : self._shoff + SECTION.size])
            count = count or first[5]
            names_index = first[6] if names_index == 0xFFFF else names_index
        self.require(self._shoff, count * SECTION.size, "section header table")
        if count > MAX_SECTIONS:
            raise MalformedElf(f"{self.label}: {count} sections")
        raw = list(SECTION.iter_unpack(self.data[self._shoff : self._shoff + count * SECTION.size]))
        if not raw:
            return ()
        names = self._section_names(raw, names_index)
        found = []
        spare = MAX_SECTION_NAMES
        for name, kind, _flags, address, offset, size, link, _info, _align, entry_size in raw:
            without = kind == SHT_NOBITS or (kind == SHT_CUDA_SHARED and self.machine == EM_CUDA)
            stored = 0 if without else size
            if stored:
                self.require(offset, stored, "section")
            text = _string(names, name, self.label) if names_index else ""
            spare -= len(text)
            if spare < 0:
                raise MalformedElf(f"{self.label}: the names of its sections are longer than their table")
            found.append(Section(text, kind, address, offset, stored, link, entry_size))
        return tuple(found)

    def _section_names(self, raw: list[tuple[int, ...]], index: int) -> bytes:
        """The table of section names; empty for a file that has no names (``index`` 0)."""
        if index >= len(raw):
            raise MalformedElf(f"{self.label}: section name table is section {index} of {len(raw)}")
        if not index:
            return b""
        offset, size = raw[index][4], raw[index][5]
        self.require(offset, size, "section name table")
        if size > MAX_SECTION_NAMES:
            raise MalformedElf(f"{self.label}: {size} bytes of section names")
        return self.data[offset : offset + size]

    def segments(self) -> tuple[Segment, ...]:
        """All program headers; the loadable ones are checked to lie inside the file."""
        if self._phnum == 0:
            return ()
        if self._phentsize != SEGMENT.size:
            raise MalformedElf(f"{self.label}: program headers of {self._phentsize} bytes instead of {SEGMENT.size}")
        self.require(self._phoff, self._phnum * SEGMENT.size, "program header table")
        found = []
        table = self.data[self._phoff : self._phoff + self._phnum * SEGMENT.size]
        for kind, _flags, offset, address, _physical, file_size, memory_size, align in SEGMENT.iter_unpack(table):
            if kind in (PT_LOAD, PT_DYNAMIC):
                self.require(offset, file_size, "segment")
            found.append(Segment(kind, offset, address, file_size, memory_size, align))
        return tuple(found)


class FileBuffer:
    """The bytes of an open file, read as they are asked for. Use from one thread.

    No map of the file: one that somebody cuts short meanwhile raises :class:`MalformedElf` instead of killing the
    process, and a sparse file of any size costs nothing.
    """

    def __init__(self, handle: int, size: int, label: str) -> None:
        self._handle = handle
        self._size = size
        self._label = label
        self._blocks: dict[int, bytes] = {}

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...
    def __getitem__(self, key: int | slice, /) -> int | bytes:
        if isinstance(key, int):
            return self._block(key)[key % BLOCK_BYTES]
        start, stop, _step = key.indices(self._size)
        if start >= stop:
            return b""
        if start // BLOCK_BYTES == (stop - 1) // BLOCK_BYTES:
            base = start % BLOCK_BYTES
            return self._block(start)[base : base + stop - start]
        return self.read_at(stop - start, start)

    def read_at(self, size: int, offset: int) -> bytes:
        """At most ``size`` bytes at ``offset``, fewer at the end of the file."""
        wanted = min(size, self._size - offset)
        if wanted > MAX_PIECE_BYTES:
            raise MalformedElf(f"{self._label}: a part of {wanted} bytes")
        found = os.pread(self._handle, wanted, offset) if wanted > 0 else b""
        if len(found) < wanted:
            raise MalformedElf(f"{self._label}: cut short while it was read")
        return found

    def find(self, sub: bytes, start: int = 0, end: int | None = None, /) -> int:
        """The position of ``sub`` in the given range, or -1."""
        at, stop = max(0, start), self._size if end is None else min(end, self._size)
        while at + len(sub) <= stop:
            base = at - at % BLOCK_BYTES
            found = self._block(at).find(sub, at - base, stop - base)
            if found >= 0:
                return base + found
            edge = base + BLOCK_BYTES  # what lies across two blocks
            around = self[max(at, edge - len(sub) + 1) : min(edge + len(sub) - 1, stop)] if len(sub) > 1 else b""
            if (found := around.find(sub)) >= 0:
                return max(at, edge - len(sub) + 1) + found
            at = edge
        return -1

    def _block(self, position: int) -> bytes:
        number = position // BLOCK_BYTES
        block = self._blocks.get(number)
        if block is None:
            if len(self._blocks) >= MAX_BLOCKS:
                self._blocks.clear()
            block = self._blocks[number] = self.read_at(BLOCK_BYTES, number * BLOCK_BYTES)
        return block


def is_elf(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a 64-bit little-endian ELF file."""
    return head[:6] == b"\x7fELF\x02\x01"


@contextlib.contextmanager
def open_elf(path: Path | str, label: str | None = None) -> Iterator[Elf]:
    """Map ``path`` and read its ELF header. Raises :class:`MalformedElf`; OSError as it comes."""
    with open_if_elf(path, label) as elf:
        if elf is None:
            raise MalformedElf(f"{label or path}: not a 64-bit little-endian ELF file")
        yield elf


@contextlib.contextmanager
def open_if_elf(path: Path | str, label: str | None = None) -> Iterator[Elf | None]:
    """Like :func:`open_elf`, but gives None for a file that does not start like an ELF file. Never waits on a FIFO."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not is_elf(os.read(handle, 6)):
            yield None
            return
        size = os.fstat(handle).st_size
        if not HEADER.size <= size <= MAX_FILE_BYTES:
            why = "too short for an ELF header" if size < HEADER.size else "more than any library has"
            raise MalformedElf(f"{label or path}: {size} bytes, {why}")
        yield Elf(FileBuffer(handle, size, label or str(path)), label or str(path))
    finally:
        os.close(handle)


def _string(table: bytes, offset: int, label: str) -> str:
    """The NUL-terminated string at ``offset`` of a string table."""
    end = table.find(b"\0", offset, offset + MAX_NAME_BYTES)
    if offset >= len(table) or end < 0:
        raise MalformedElf(f"{label}: string at {offset} runs past its table of {len(table)} bytes")
    return table[offset:end].decode("utf-8", "surrogateescape")
