"""Read every ELF file of a tree: device code and dynamic facts in one pass over the headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from orbit.audit.dynamic import Export, find_exports, gnu_hash, read_dynamic, read_exports
from orbit.audit.elf import EM_CUDA, HEADER, Elf, MalformedBinary, open_elf, open_if_elf
from orbit.audit.facts import SharedObject, Tree
from orbit.audit.fatbin import containers_of
from orbit.audit.knowledge import matcher, symbol_family, symbols
from orbit.audit.releases import read_embedded, read_release
from orbit.audit.jit import is_tool, tool_release

LIBRARY = re.compile(r"\.so(\.[0-9]+)*$")
"""The end of a name that promises a library, not only something about one."""


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
                    if LIBRARY.search(path) and _is_blank(whole):
                        damaged[path] = f"{path}: empty, or zeros in place of an ELF header"
                elif elf.machine != EM_CUDA:
                    objects.append(object_of(elf, path))
        except MalformedBinary as error:
            damaged[path] = error.what
        except OSError as error:
            damaged[path] = error.strerror or str(error)
    return tuple(objects), damaged


def object_of(elf: Elf, path: str) -> SharedObject:
    """The facts of an open ELF file. Raises :class:`orbit.audit.elf.MalformedBinary`."""
    release = tool_release(elf) if is_tool(path) else ""
    return SharedObject(path, elf.machine, tuple(containers_of(elf)), read_dynamic(elf), release)


def _is_blank(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) in (b"", bytes(4))


def needed_exports(
    prefix: Path, objects: Iterable[SharedObject]
) -> tuple[dict[str, frozenset[Export]], dict[str, str]]:
    """(exported symbols of the libraries that others ask something of; reason for those that could not be read), both
    by path.

    A library that a version need can mean is read whole. One that defines a symbol family has 78,000 symbols (torch),
    of which others want some: only those that an object of the target leaves undefined are looked up, and they are
    given without version, which nobody asked for.
    """
    objects = tuple(objects)
    versioned = {need.library for item in objects if item.dynamic for need in item.dynamic.needs}
    families = family_names(objects)
    probes = {family.cxx11_probe for family in symbols().families if family.name in families}
    found: dict[str, frozenset[Export]] = {}
    damaged: dict[str, str] = {}
    for item in objects:
        if item.dynamic is None:
            continue
        name = item.path.rpartition("/")[2]
        whole = not versioned.isdisjoint((item.dynamic.soname, name)) or name in probes
        wanted = {} if whole else _wanted_of(item, families)
        if not whole and not wanted:
            continue
        try:
            with open_elf(f"{prefix}/{item.path}", item.path) as elf:
                if whole:
                    found[item.path] = read_exports(elf)
                else:
                    found[item.path] = frozenset(Export(symbol, "") for symbol in find_exports(elf, wanted))
        except MalformedBinary as error:
            damaged[item.path] = error.what
        except OSError as error:
            damaged[item.path] = error.strerror or str(error)
    return found, damaged


def family_names(objects: Iterable[SharedObject]) -> dict[str, dict[str, int]]:
    """Symbols that objects leave undefined and that belong to a symbol family, with their hash, by family."""
    found: dict[str, dict[str, int]] = {}
    for item in objects:
        for symbol in item.dynamic.undefined if item.dynamic else ():
            family = symbol_family(symbol)
            if family and symbol not in (names := found.setdefault(family, {})):
                names[symbol] = gnu_hash(symbol.encode("utf-8", "surrogateescape"))
    return found


def _wanted_of(item: SharedObject, families: dict[str, dict[str, int]]) -> dict[str, int]:
    """What others want of a library that defines symbol families."""
    soname = item.dynamic.soname if item.dynamic else ""
    name = item.path.rpartition("/")[2]
    wanted: dict[str, int] = {}
    for family in symbols().families:
        is_provider = matcher(family.libraries)
        if family.name in families and (is_provider(name) or (soname and is_provider(soname))):
            wanted |= families[family.name]
    return wanted
