"""Read every ELF file of a tree: device code and dynamic facts in one pass over the headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from orbit.audit.binary.bare import mark_bare
from orbit.audit.binary.dynamic import Dynamic, Export, Names, find_exports, read_dynamic, read_exports
from orbit.audit.binary.elf import EM_CUDA, HEADER, MAGIC, Elf, MalformedBinary, is_elf, open_elf, open_if_elf
from orbit.audit.binary.fatbin import containers_of
from orbit.audit.facts import SharedObject, Tree
from orbit.audit.files.releases import read_embedded, read_release
from orbit.audit.known.jit import is_tool, tool_release
from orbit.audit.known.knowledge import matcher, symbol_family, symbols
from orbit.core.files import open_regular
from orbit.errors import InputError

LIBRARY = re.compile(r"\.so(\.[0-9]+)*$")
"""The end of a name that promises a library, not only something about one."""
EM_386, EM_X86_64 = 3, 62
ELF_HEAD_BYTES = 20
"""Up to the end of ``e_machine``, which lies at the same place in ELF files of every class."""


def elf_candidates(tree: Tree) -> Iterator[str]:
    """Regular files that can be ELF files: named like a library, or executable and not shorter than an ELF header."""
    for path, fact in tree.entries.items():
        if fact.is_file and (".so" in path.rpartition("/")[2] or (fact.size >= HEADER.size and fact.mode & 0o111)):
            yield path


def read_objects(prefix: Path, tree: Tree) -> tuple[tuple[SharedObject, ...], dict[str, str]]:
    """(every ELF file in order of path; reason by path for those that could not be read).

    Loose cubins are left out, as are text files named like a library (linker scripts). A library that is empty or
    starts with zeros is what an interrupted copy leaves: damaged.
    """
    objects: list[SharedObject] = []
    damaged: dict[str, str] = {}
    for path in sorted(elf_candidates(tree)):
        whole = f"{prefix}/{path}"
        try:
            with open_if_elf(whole, path) as elf:
                if elf is None:
                    head = _head(whole)
                    if (other := other_elf(path, head)) is not None:
                        objects.append(other)
                    elif LIBRARY.search(path) and head[:4] in (b"", bytes(4)):
                        damaged[path] = f"{path}: empty, or zeros in place of an ELF header"
                elif elf.machine != EM_CUDA:
                    objects.append(object_of(elf, path))
        except InputError as error:
            damaged[path] = error.what
        except OSError as error:
            damaged[path] = error.strerror or str(error)
    return tuple(objects), damaged


def object_of(elf: Elf, path: str) -> SharedObject:
    """The facts of an open ELF file. Raises :class:`orbit.audit.binary.elf.MalformedBinary`."""
    dynamic = read_dynamic(elf)
    release = tool_release(elf) if is_tool(path) else read_release(elf, path, dynamic)
    containers = tuple(mark_bare(container, elf.data) for container in containers_of(elf))
    return SharedObject(path, elf.machine, containers, dynamic, release, read_embedded(elf, path, dynamic))


def other_elf(path: str, head: bytes) -> SharedObject | None:
    """An ELF file of 32 bits or big-endian, by its first :data:`ELF_HEAD_BYTES`: nothing of it is read but the machine.

    None for any other file. A file of the x32 ABI (32 bits for x86-64) counts as one for i386: neither can be loaded.
    """
    if head[:4] != MAGIC or is_elf(head) or len(head) < ELF_HEAD_BYTES:
        return None
    machine = int.from_bytes(head[18:20], "big" if head[5] == 2 else "little")
    return SharedObject(path, EM_386 if machine == EM_X86_64 else machine, (), None)


def _head(path: str) -> bytes:
    with open_regular(path) as file:
        return file.read(ELF_HEAD_BYTES)


def needed_exports(
    prefix: Path, objects: Iterable[SharedObject]
) -> tuple[dict[str, frozenset[Export]], dict[str, str]]:
    """(exported symbols of the libraries that others ask something of; reason for those that could not be read), both
    by path.

    A library that a version need can mean is read whole. One that defines a symbol family has 78,000 symbols (torch),
    of which others want some: only those that an object of the target leaves undefined are looked up, and they are
    given without version, which nobody asked for. What a family's own libraries do not define is then looked up in
    everything that the object needs (tilelang brings its own definitions of CUDA functions).
    """
    reader = _ExportReader(prefix)
    _collect(tuple(objects), reader)
    return reader.found, reader.damaged


def select_exports(
    objects: Iterable[SharedObject], tables: Mapping[str, frozenset[Export]]
) -> dict[str, frozenset[Export]]:
    """What :func:`needed_exports` reads in files, out of the whole tables of libraries that went by as streams."""
    reader = _TableReader(tables)
    _collect(tuple(objects), reader)
    return reader.found


def _collect(objects: tuple[SharedObject, ...], reader: _ExportReader | _TableReader) -> None:
    """Ask ``reader`` for every symbol table that others ask something of."""
    versioned = {need.library for item in objects if item.dynamic for need in item.dynamic.needs}
    wanted = {family: Names(names) for family, names in family_names(objects).items()}
    probes = {family.cxx11_probe for family in symbols().families if family.name in wanted}
    for item in objects:
        if item.dynamic is None:
            continue
        names = names_of(item)
        if not versioned.isdisjoint(names) or not probes.isdisjoint(names):
            reader.read(item, None)
        elif families := [wanted[family] for family in families_defined_by(item) if family in wanted]:
            reader.read(item, families)
    for item, missing in _unanswered(objects, reader.found):
        reader.read(item, [missing])


class _TableReader:
    """Collects exported symbols out of whole tables by path."""

    def __init__(self, tables: Mapping[str, frozenset[Export]]) -> None:
        self.tables = tables
        self.found: dict[str, frozenset[Export]] = {}

    def read(self, item: SharedObject, wanted: Iterable[Names] | None) -> None:
        """Add all symbols of ``item``, or those that are wanted."""
        table = self.tables.get(item.path)
        if table is None:
            return
        if wanted is not None:
            names = {name for group in wanted for name in group.names}
            table = frozenset(Export(export.name, "") for export in table if export.name in names)
        self.found[item.path] = self.found.get(item.path, frozenset()) | table


class _ExportReader:
    """Collects exported symbols of files below ``prefix``."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.found: dict[str, frozenset[Export]] = {}
        self.damaged: dict[str, str] = {}

    def read(self, item: SharedObject, wanted: Iterable[Names] | None) -> None:
        """Add all symbols of ``item``, or those that are wanted."""
        if item.path in self.damaged:
            return
        try:
            with open_elf(f"{self.prefix}/{item.path}", item.path) as elf:
                if wanted is None:
                    new = read_exports(elf)
                else:
                    new = frozenset(Export(name, "") for names in wanted for name in find_exports(elf, names))
            self.found[item.path] = self.found.get(item.path, frozenset()) | new
        except MalformedBinary as error:
            self.damaged[item.path] = error.what
        except OSError as error:
            self.damaged[item.path] = error.strerror or str(error)


def names_of(item: SharedObject) -> tuple[str, ...]:
    """What a need for the object can call it: its file's name and its soname."""
    name = item.path.rpartition("/")[2]
    soname = item.dynamic.soname if item.dynamic else ""
    return (name, soname) if soname and soname != name else (name,)


def family_names(objects: Iterable[SharedObject]) -> dict[str, set[str]]:
    """Symbols that objects leave undefined and that belong to a symbol family, by family."""
    found: dict[str, set[str]] = {}
    for item in objects:
        for symbol in item.dynamic.undefined if item.dynamic else ():
            if family := symbol_family(symbol):
                found.setdefault(family, set()).add(symbol)
    return found


def families_defined_by(item: SharedObject) -> tuple[str, ...]:
    """The symbol families whose symbols the object is to define."""
    names = names_of(item)
    return tuple(family.name for family in symbols().families if any(matcher(family.libraries)(name) for name in names))


def _unanswered(
    objects: tuple[SharedObject, ...], exports: Mapping[str, frozenset[Export]]
) -> Iterator[tuple[SharedObject, Names]]:
    """Libraries that were not looked into for some family, with what objects that need them still miss of it."""
    defined: dict[str, set[str]] = {}
    by_name: dict[str, list[SharedObject]] = {}
    for item in objects:
        for name in names_of(item):
            by_name.setdefault(name, []).append(item)
        for family in families_defined_by(item):
            defined.setdefault(family, set()).update(export.name for export in exports.get(item.path, ()))
    missing: dict[str, set[str]] = {}
    for item in objects:
        dynamic = item.dynamic
        open_names = {
            symbol
            for symbol in (dynamic.undefined if dynamic else ())
            if (family := symbol_family(symbol)) and symbol not in defined.get(family, ())
        }
        if dynamic is not None and open_names:
            for library in _needed_by_name(dynamic, by_name):
                missing.setdefault(library.path, set()).update(open_names)
    for path, names in missing.items():
        yield next(item for item in objects if item.path == path), Names(names)


def _needed_by_name(dynamic: Dynamic, by_name: Mapping[str, list[SharedObject]]) -> Iterator[SharedObject]:
    """Every object whose name something needs, directly or not."""
    seen: set[str] = set()
    pending = list(dynamic.needed)
    while pending:
        soname = pending.pop()
        if soname not in seen:
            seen.add(soname)
            for item in by_name.get(soname, ()):
                pending += item.dynamic.needed if item.dynamic else ()
                yield item
