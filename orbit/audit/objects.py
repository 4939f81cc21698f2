"""Read every ELF file of a tree: device code and dynamic facts in one pass over the headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from orbit.audit.dynamic import Export, read_dynamic, read_exports
from orbit.audit.elf import EM_CUDA, HEADER, Elf, MalformedBinary, open_elf, open_if_elf
from orbit.audit.facts import SharedObject, Tree
from orbit.audit.fatbin import containers_of

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
    return SharedObject(path, elf.machine, tuple(containers_of(elf)), read_dynamic(elf))


def _is_blank(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) in (b"", bytes(4))


def needed_exports(
    prefix: Path, objects: Iterable[SharedObject]
) -> tuple[dict[str, frozenset[Export]], dict[str, str]]:
    """(exported symbols of every library that a version need of some object can mean; reason for those that could not
    be read), both by path."""
    objects = tuple(objects)
    wanted = {need.library for item in objects if item.dynamic for need in item.dynamic.needs}
    found: dict[str, frozenset[Export]] = {}
    damaged: dict[str, str] = {}
    for item in objects:
        if item.dynamic and (item.dynamic.soname in wanted or item.path.rpartition("/")[2] in wanted):
            try:
                with open_elf(f"{prefix}/{item.path}", item.path) as elf:
                    found[item.path] = read_exports(elf)
            except MalformedBinary as error:
                damaged[item.path] = error.what
            except OSError as error:
                damaged[item.path] = error.strerror or str(error)
    return found, damaged
