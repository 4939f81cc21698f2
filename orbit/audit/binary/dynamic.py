"""What the dynamic loader reads in a shared object: names, run paths, version needs, imported and exported symbols.

Everything is found the way the loader finds it, through PT_DYNAMIC and addresses, so files stripped of their section
headers are read as well. Undefined symbols come before the hashed ones (DT_GNU_HASH covers every defined symbol and
starts at ``symoffset``), so the import list of a library with a hundred thousand exports costs nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from orbit.audit.binary.elf import MAX_NAME_BYTES, PT_DYNAMIC, PT_LOAD, Buffer, Elf, FileBuffer, MalformedElf, Segment

ENTRY = struct.Struct("<QQ")
SYMBOL = struct.Struct("<IBBHQQ")
NAME = struct.Struct("<IBBH")
"""The start of a symbol: what says which one it is, and whether it is defined."""
VERNEED = struct.Struct("<HHIII")
VERNEED_ITEM = struct.Struct("<IHHII")
VERDEF = struct.Struct("<HHHHIII")

DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 4, 5, 6, 10, 14, 15, 29
DT_GNU_HASH, DT_VERSYM = 0x6FFFFEF5, 0x6FFFFFF0
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF

VER_FLG_WEAK = 2
VERSYM_INDEX = 0x7FFF
STB_WEAK = 2
LOCAL_END = 0x10
"""``st_info`` of a local symbol is below this: such a symbol is nobody else's business."""
MAX_DYNAMIC_ENTRIES = 65536
MAX_NEEDED = 2048
MAX_TABLE_BYTES = 64 << 20
"""A longer table of names is not read as a whole."""
MAX_SYMBOLS = 1 << 22
"""Of one file, and of the buckets of its hash table; libtorch_cpu has 78,000 symbols."""
MAX_RUN_PATH = 2048
"""No library has a tenth of these; together they bound what the loader's model does for one file."""
NAMES_PER_STRING_BYTE = 4
SPARE_NAME_BYTES = 1 << 20
"""All names read of one file may be this many times its string table, and this: names that overlap are no names."""


class VersionNeed(NamedTuple):
    """A version that must be defined by ``library`` (its soname) for the file to load at all."""

    library: str
    version: str
    weak: bool


class Import(NamedTuple):
    """An undefined symbol bound to a version of a library: ``name@version`` out of ``library``."""

    name: str
    version: str
    library: str
    weak: bool


class Export(NamedTuple):
    """A defined dynamic symbol; ``version`` is empty when it has none."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The dynamic facts of one shared object."""

    soname: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    """DT_RPATH, split; in force only when there is no DT_RUNPATH. An empty element means the working directory."""
    runpath: tuple[str, ...]
    """DT_RUNPATH, split the same way."""
    needs: tuple[VersionNeed, ...]
    defines: tuple[str, ...]
    """Versions this file defines (without the base definition, which is its soname)."""
    imports: tuple[Import, ...]
    """Undefined symbols that are bound to a version of one library."""
    undefined: tuple[str, ...] = ()
    """Undefined symbols without a version, weak ones left out: whatever the process has loaded may define them, and
    when nothing does the file cannot be loaded (or, bound lazily, the process dies at the first call)."""


def read_dynamic(elf: Elf) -> Dynamic | None:
    """The dynamic facts of ``elf``; None for a file without a dynamic segment. Raises :class:`MalformedElf`."""
    view = _View.of(elf)
    if view is None:
        return None
    tags = view.tags
    needs, indices = _version_needs(view)
    if len(tags.get(DT_NEEDED, ())) > MAX_NEEDED:
        raise MalformedElf(f"{elf.label}: {len(tags[DT_NEEDED])} needed libraries, more than {MAX_NEEDED}")
    runpath = view.one_text(DT_RUNPATH)
    # an empty DT_RUNPATH names no folder, yet it puts DT_RPATH out of force
    rpath = view.one_text(DT_RPATH) if runpath or DT_RUNPATH not in tags else ""
    imports, undefined = _undefined(view, indices)
    return Dynamic(
        soname=view.one_text(DT_SONAME),
        needed=tuple(view.text(value) for value in tags.get(DT_NEEDED, ())),
        rpath=_split(rpath, elf.label),
        runpath=_split(runpath, elf.label),
        needs=needs,
        defines=tuple(name for index, name in _version_definitions(view).items() if index != 1),
        imports=imports,
        undefined=undefined,
    )


def read_exports(elf: Elf) -> frozenset[Export]:
    """All defined dynamic symbols of ``elf`` with their versions. Raises :class:`MalformedElf`."""
    view = _View.of(elf)
    if view is None or DT_SYMTAB not in view.tags:
        return frozenset()
    names = _version_definitions(view)
    _first, count = _symbol_range(view)
    versions = _symbol_versions(view, count)
    found = []
    for index, (name, info, _other, section, _value, _size) in enumerate(_symbols(view, 0, count)):
        if section != 0 and info >> 4 != 0:
            version = versions[index] & VERSYM_INDEX if versions else 0
            found.append(Export(view.text(name), names.get(version, "") if version > 1 else ""))
    return frozenset(found)


class Names:
    """Names to look up in many files, with what DT_GNU_HASH needs of them."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        self.hashed: dict[int, list[str]] = {}
        for name in self.names:
            value = gnu_hash(name.encode("utf-8", "surrogateescape"))
            for either in (value & ~1, value | 1):  # the lowest bit of a chain entry says that the chain ends
                self.hashed.setdefault(either, []).append(name)


def find_exports(elf: Elf, wanted: Names) -> dict[str, int]:
    """Those of the ``wanted`` names that ``elf`` defines, each with its index in the symbol table.

    Found through DT_GNU_HASH as the loader does it, without reading every symbol of the file (78,000 in libtorch_cpu).
    A file without that table has all its symbols read. Raises :class:`MalformedElf`.
    """
    view = _View.of(elf)
    if view is None or DT_SYMTAB not in view.tags:
        return {}
    if DT_GNU_HASH in view.tags:
        return dict(_look_up(view, wanted))
    _first, count = _symbol_range(view)
    found = {}
    for index, (name, info, _other, section, _value, _size) in enumerate(_symbols(view, 0, count)):
        if section != 0 and info >= LOCAL_END and (text := view.text(name)) in wanted.names:
            found[text] = index
    return found


def read_symbol(elf: Elf, index: int, size: int) -> bytes:
    """The first ``size`` bytes of what the dynamic symbol at ``index`` stands for. Raises :class:`MalformedElf`."""
    view = _View.of(elf)
    if view is None:
        return b""
    _name, _info, _other, _section, address, _size = next(_symbols(view, index, index + 1))
    at = view.offset(address, size, "symbol")
    return view.data[at : at + size]


def gnu_hash(name: bytes) -> int:
    """The hash of DT_GNU_HASH."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def _look_up(view: _View, wanted: Names) -> Iterator[tuple[str, int]]:
    """(name, index) of wanted names in the chains of DT_GNU_HASH, which hold the hash of every defined symbol."""
    first, chains = _chains(view)
    if not chains or wanted.hashed.keys().isdisjoint(chains):
        return
    table = view.offset(view.one(DT_SYMTAB), (first + len(chains)) * SYMBOL.size, "DT_SYMTAB")
    for index, value in enumerate(chains, first):
        for name in wanted.hashed.get(value, ()):
            at = table + index * SYMBOL.size
            text, _info, _other, section = NAME.unpack(view.data[at : at + NAME.size])
            raw = name.encode("utf-8", "surrogateescape") + b"\0"
            start = view.strings + text
            if section != 0 and view.data[start : start + len(raw)] == raw:
                yield name, index


def _chains(view: _View) -> tuple[int, tuple[int, ...]]:
    """(index of the first hashed symbol, hash chains of DT_GNU_HASH)."""
    address = view.one(DT_GNU_HASH)
    at = view.offset(address, 16, "DT_GNU_HASH")
    count, first, bloom_words, _shift = struct.unpack("<4I", view.data[at : at + 16])
    table = address + 16 + 8 * bloom_words
    if count > MAX_SYMBOLS:
        raise MalformedElf(f"{view.elf.label}: {count} hash buckets")
    at = view.offset(table, 4 * count, "hash buckets")
    last = max(struct.unpack(f"<{count}I", view.data[at : at + 4 * count]), default=0)
    if last < max(first, 1):
        return first, ()
    size = _end_of_chain(view, table + 4 * count, last, first) - first
    at = view.offset(table + 4 * count, 4 * size, "hash chains")
    return first, struct.unpack(f"<{size}I", view.data[at : at + 4 * size])


class _View:
    """A dynamic segment with its address translation and string table."""

    def __init__(self, elf: Elf, loads: list[Segment], tags: dict[int, list[int]]) -> None:
        self.elf = elf
        self.data = elf.data
        self.loads = loads
        self.tags = tags
        self._table: Buffer | None = None
        self._base = 0
        self.strings_size = self.one(DT_STRSZ)
        self.name_bytes = NAMES_PER_STRING_BYTE * self.strings_size + SPARE_NAME_BYTES
        self.strings = self.offset(self.one(DT_STRTAB), self.strings_size, "DT_STRTAB") if DT_STRTAB in tags else 0

    @classmethod
    def of(cls, elf: Elf) -> _View | None:
        segments = elf.segments()
        dynamic = next((segment for segment in segments if segment.kind == PT_DYNAMIC and segment.file_size), None)
        if dynamic is None:
            return None
        size = min(dynamic.file_size - dynamic.file_size % ENTRY.size, MAX_DYNAMIC_ENTRIES * ENTRY.size)
        tags: dict[int, list[int]] = {}
        for tag, value in ENTRY.iter_unpack(elf.data[dynamic.offset : dynamic.offset + size]):
            if tag == 0:
                break
            tags.setdefault(tag, []).append(value)
        return cls(elf, [segment for segment in segments if segment.kind == PT_LOAD], tags)

    def one(self, tag: int) -> int:
        values = self.tags.get(tag)
        return values[-1] if values else 0

    def one_text(self, tag: int) -> str:
        return self.text(self.one(tag)) if tag in self.tags else ""

    def offset(self, address: int, size: int, what: str) -> int:
        """File offset of ``size`` bytes at a virtual address."""
        for segment in self.loads:
            inside = address - segment.address
            if inside >= 0 and inside + size <= segment.file_size:
                return segment.offset + inside
        raise MalformedElf(f"{self.elf.label}: {what}: address {address:#x} (+{size}) is in no loaded segment")

    def text(self, offset: int) -> str:
        if self._table is None:
            self._table, self._base = self.data, self.strings
            if isinstance(self.data, FileBuffer) and self.strings_size <= MAX_TABLE_BYTES:
                self._table, self._base = self.data[self.strings : self.strings + self.strings_size], 0
        start = self._base + offset
        limit = min(self._base + self.strings_size, start + MAX_NAME_BYTES)
        # the offset is checked first: a map cannot be asked about positions that no file has
        end = self._table.find(b"\0", start, limit) if offset < self.strings_size else -1
        if end < 0:
            raise MalformedElf(f"{self.elf.label}: string at {offset} runs past the dynamic string table")
        self.name_bytes -= end - start
        if self.name_bytes < 0:
            raise MalformedElf(f"{self.elf.label}: the names in it are longer than the strings they are made of")
        return self._table[start:end].decode("utf-8", "surrogateescape")


def _split(value: str, label: str) -> tuple[str, ...]:
    if value.count(":") >= MAX_RUN_PATH:
        raise MalformedElf(f"{label}: a run path of {value.count(':') + 1} folders, more than {MAX_RUN_PATH}")
    return tuple(value.split(":")) if value else ()


def _version_needs(view: _View) -> tuple[tuple[VersionNeed, ...], dict[int, tuple[str, str]]]:
    """(needs, {symbol version index: (version, library)})."""
    needs: list[VersionNeed] = []
    indices: dict[int, tuple[str, str]] = {}
    if DT_VERNEED not in view.tags:
        return (), indices
    address = view.one(DT_VERNEED)
    for _ in range(view.one(DT_VERNEEDNUM)):
        at = view.offset(address, VERNEED.size, "DT_VERNEED")
        _version, count, file, items, following = VERNEED.unpack(view.data[at : at + VERNEED.size])
        library = view.text(file)
        item_address = address + items
        for _ in range(count):
            at = view.offset(item_address, VERNEED_ITEM.size, "version need")
            _hash, flags, other, name, after = VERNEED_ITEM.unpack(view.data[at : at + VERNEED_ITEM.size])
            version = view.text(name)
            needs.append(VersionNeed(library, version, bool(flags & VER_FLG_WEAK)))
            if len(needs) > view.elf.size // VERNEED_ITEM.size:
                raise MalformedElf(f"{view.elf.label}: more needs of versions than fit into it")
            indices[other & VERSYM_INDEX] = (version, library)
            if after == 0:
                break
            item_address += after
        if following == 0:
            break
        address += following
    return tuple(needs), indices


def _version_definitions(view: _View) -> dict[int, str]:
    """{version index: name} out of DT_VERDEF."""
    found: dict[int, str] = {}
    if DT_VERDEF not in view.tags:
        return found
    address = view.one(DT_VERDEF)
    for _ in range(view.one(DT_VERDEFNUM)):
        at = view.offset(address, VERDEF.size, "DT_VERDEF")
        _version, _flags, index, count, _hash, names, following = VERDEF.unpack(view.data[at : at + VERDEF.size])
        if count:
            at = view.offset(address + names, 8, "version definition")
            found[index & VERSYM_INDEX] = view.text(int.from_bytes(view.data[at : at + 4], "little"))
        if following == 0:
            break
        address += following
    return found


def _undefined(view: _View, indices: dict[int, tuple[str, str]]) -> tuple[tuple[Import, ...], tuple[str, ...]]:
    """(versioned undefined symbols, names of the strong ones without a version)."""
    if DT_SYMTAB not in view.tags:
        return (), ()
    first_hashed, count = _symbol_range(view)
    count = first_hashed or count
    versions = _symbol_versions(view, count) or (0,) * count
    imports: list[Import] = []
    plain: list[str] = []
    for version, (name, info, _other, section, _value, _size) in zip(versions, _symbols(view, 0, count), strict=False):
        if section != 0 or info < LOCAL_END:
            continue
        bound = indices.get(version & VERSYM_INDEX)
        if bound is not None:
            imports.append(Import(view.text(name), bound[0], bound[1], info >> 4 == STB_WEAK))
        elif info >> 4 != STB_WEAK:
            plain.append(view.text(name))
    return tuple(imports), tuple(plain)


def _symbols(view: _View, first: int, count: int) -> Iterator[tuple[int, int, int, int, int, int]]:
    size = (count - first) * SYMBOL.size
    at = view.offset(view.one(DT_SYMTAB) + first * SYMBOL.size, size, "DT_SYMTAB")
    return SYMBOL.iter_unpack(view.data[at : at + size])


def _symbol_versions(view: _View, count: int) -> tuple[int, ...]:
    if DT_VERSYM not in view.tags:
        return ()
    at = view.offset(view.one(DT_VERSYM), 2 * count, "DT_VERSYM")
    return struct.unpack(f"<{count}H", view.data[at : at + 2 * count])


def _symbol_range(view: _View) -> tuple[int, int]:
    """(index of the first hashed symbol, or 0 when unknown; number of dynamic symbols): no more than fit into the file.

    Whatever a file states is refused before anything of that size is made.
    """
    first, count = _stated_range(view)
    if max(first, count) > min(MAX_SYMBOLS, view.elf.size // SYMBOL.size):
        raise MalformedElf(f"{view.elf.label}: {max(first, count)} dynamic symbols in {view.elf.size} bytes")
    return first, count


def _stated_range(view: _View) -> tuple[int, int]:
    if DT_GNU_HASH in view.tags:
        address = view.one(DT_GNU_HASH)
        at = view.offset(address, 16, "DT_GNU_HASH")
        buckets, first, bloom_words, _shift = struct.unpack("<4I", view.data[at : at + 16])
        table = address + 16 + 8 * bloom_words
        if buckets > MAX_SYMBOLS:
            raise MalformedElf(f"{view.elf.label}: {buckets} hash buckets")
        at = view.offset(table, 4 * buckets, "hash buckets")
        last = max(struct.unpack(f"<{buckets}I", view.data[at : at + 4 * buckets]), default=0)
        if last >= max(first, 1):
            return first, _end_of_chain(view, table + 4 * buckets, last, first)
    if DT_HASH in view.tags:
        at = view.offset(view.one(DT_HASH), 8, "DT_HASH")
        return 0, int.from_bytes(view.data[at + 4 : at + 8], "little")
    return 0, _count_by_sections(view)


def _end_of_chain(view: _View, chains: int, last: int, first: int) -> int:
    """One past the last symbol: the end of the chain that starts at the highest bucket."""
    at = view.offset(chains + 4 * (last - first), 4, "hash chain")
    limit = view.elf.size
    while at + 4 <= limit and last < MAX_SYMBOLS:
        if view.data[at] & 1:
            return last + 1
        at += 4
        last += 1
    raise MalformedElf(f"{view.elf.label}: a hash chain without an end")


def _count_by_sections(view: _View) -> int:
    """An object that exports nothing has no hash chain to count by: ask the section header of the table."""
    at = view.offset(view.one(DT_SYMTAB), SYMBOL.size, "DT_SYMTAB")
    section = next((section for section in view.elf.sections() if section.offset == at), None)
    return section.size // SYMBOL.size if section else 0
