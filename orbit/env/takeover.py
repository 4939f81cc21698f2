"""What a new environment takes over from one in the store: every file of a distribution whose wheel is the same.

Such a file is linked, not copied: it is there at once and needs no room. Two environments of the store then share it,
and whoever writes into it changes both. That is seen in both, because the time of the file is no longer that of an
environment (:mod:`orbit.env.tree`), and what was touched is never taken over: every file is compared with the manifest
of the earlier environment after it was linked, and one that differs makes that environment useless as a source. Copies
that leave the store share nothing.

Not taken over: compiled files of a folder whose sources change (a compiled file depends on its whole folder, see
:mod:`orbit.env.compile_worker`), distributions that claim a path that a new one claims too, and anything from an
environment that was made for another place, by another interpreter, compiler, uv or shape (:data:`DECIDING`).
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbit.core.console import Progress
from orbit.core.store import Entry, Store
from orbit.env import tree
from orbit.env.bytecode import TAG, compiled_path
from orbit.env.contents import read_contents
from orbit.env.install import Plan
from orbit.env.installed import Installed, read_installed
from orbit.env.record import RECORD_PATH, Contested, EnvironmentRecord, read_environment
from orbit.errors import InputError

DECIDING = ("format", "prefix", "interpreter", "compiler")
"""Inputs of an environment that every file in it may depend on."""
LIBRARY = "lib/python3.12"
SITE = f"{LIBRARY}/site-packages"
FARM = "cuda/"
CANNOT_LINK = frozenset({errno.EPERM, errno.EMLINK, errno.EXDEV, errno.ENOTSUP, errno.ENOENT})


class Unusable(Exception):
    """The earlier environment cannot be used after all; the message says why."""


@dataclass(frozen=True, slots=True)
class Source:
    """An environment of the store from which files can be taken over, untouched since it was made."""

    key: str
    prefix: Path
    record: EnvironmentRecord
    same: frozenset[str]
    """Distributions whose wheel is the one the new environment wants."""
    dists: Mapping[str, Installed]
    """All its distributions by name, RECORDs as they are in it."""
    owned: Mapping[str, frozenset[str]]
    """Paths of each distribution relative to the prefix: files, and folders with nothing in them."""
    manifest: Mapping[str, str]
    """The rest of the manifest's line by path."""
    contents: Mapping[str, str]
    """See :func:`orbit.env.contents.read_contents`."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What decides whether an earlier environment can be a source for a new one."""

    inputs: Mapping[str, Any]
    """The new environment's; those in :data:`DECIDING` must be equal."""
    makers: Mapping[str, Any]
    """Must be equal to ``makers`` in the outputs of the earlier one."""
    plan: Plan
    interpreter: Path
    """The folder from which the interpreter of both was copied."""


def sources(store: Store, kind: str, wanted: Wanted, *, progress: Progress) -> Iterator[Source]:
    """Environments of the store to take over from, most bytes of equal wheels first; of equals the one used last."""
    dists = frozenset(wanted.plan.distributions())
    sizes = wanted.plan.sizes()
    ranked: list[tuple[int, Entry, EnvironmentRecord, frozenset[str]]] = []
    for entry in store.entries(kind):
        inputs, outputs = entry.record.inputs, entry.record.outputs
        if any(inputs.get(n) != wanted.inputs[n] for n in DECIDING) or outputs.get("makers") != wanted.makers:
            continue
        with contextlib.suppress(InputError):
            record = read_environment(entry.path / "prefix")
            same = frozenset(dist.name for dist in dists.intersection(record.distributions))
            ranked.append((sum(sizes[name] for name in same), entry, record, same))
    for _, entry, record, same in sorted(ranked, key=lambda item: -item[0]):
        try:
            yield _read(entry, record, same, wanted.interpreter)
        except (Unusable, InputError) as problem:
            progress.step(not_used(entry.record.key, problem))


def not_used(key: str, problem: Exception) -> str:
    """The line that says why an environment of the store is not taken over from."""
    return f"environment {key[:12]} of the store is not used: {problem}"


def _read(entry: Entry, record: EnvironmentRecord, same: frozenset[str], interpreter: Path) -> Source:
    """What is known of the environment. What it says is as it was made; files are looked at when they are linked."""
    prefix = entry.path / "prefix"
    manifest = dict(line.split("\t", 1) for line in tree.read_lines(entry.path / tree.MANIFEST))
    dists = {dist.name: dist for dist in read_installed(prefix / SITE)}
    notes = [RECORD_PATH, *(f"{SITE}/{dist.info.name}/RECORD" for dist in dists.values())]
    if path := tree.touched(prefix, manifest, notes):
        raise Unusable(f"{path} was changed")
    return Source(
        key=entry.record.key,
        prefix=prefix,
        record=record,
        same=same,
        dists=dists,
        owned=owners(dists.values(), manifest, interpreter),
        manifest=manifest,
        contents=read_contents(entry.path),
    )


def in_prefix(path: str) -> str:
    """A path that is relative to site-packages, relative to the prefix."""
    return os.path.normpath(f"{SITE}/{path}") if path.startswith("../") else f"{SITE}/{path}"


def paths_of(dist: Installed) -> frozenset[str]:
    """Paths that the RECORD of ``dist`` lists, relative to the prefix."""
    return frozenset(in_prefix(line.path) for line in dist.lines)


def owners(dists: Iterable[Installed], manifest: Mapping[str, str], interpreter: Path) -> dict[str, frozenset[str]]:
    """Which paths belong to which distribution: what its RECORD lists, and what lies among its files alone.

    Some wheels bring folders with nothing in them, or files that their RECORD does not list. Raises
    :class:`Unusable` when such a path lies where several distributions put files, or none.
    """
    owned = {dist.name: paths_of(dist) for dist in dists}
    owner: dict[str, str] = {}
    for name, paths in owned.items():
        for path in paths:
            owner[path] = "" if path in owner else name
    listed = sorted(owner)
    strays: dict[str, set[str]] = defaultdict(set)
    for path in _unlisted(manifest, owner.keys(), interpreter):
        strays[_neighbour(path, listed, owner)].add(path)
    return {name: paths | strays[name] if name in strays else paths for name, paths in owned.items()}


def _unlisted(manifest: Mapping[str, str], listed: Set[str], interpreter: Path) -> list[str]:
    """Files, and folders with nothing in them, that are in no RECORD and that Orbit did not put there."""
    files, folders = tree.listing(interpreter)
    compiled = {compiled_path(path) for path in files if path.endswith(".py")}
    left = manifest.keys() - listed - files - folders - compiled - {RECORD_PATH, SITE}
    filled = {path.rpartition("/")[0] for path in manifest}
    return [path for path in left if not path.startswith(FARM) and not (is_folder(manifest[path]) and path in filled)]


def is_folder(line: str) -> bool:
    """Whether this rest of a manifest's line is of a folder (S_IFDIR is 0o40000)."""
    return line.startswith("4")


def _neighbour(path: str, listed: list[str], owner: Mapping[str, str]) -> str:
    """The only distribution that has files in the nearest folder around ``path`` in which any has."""
    folder = path.rpartition("/")[0]
    while folder.startswith(f"{SITE}/"):
        first, end = bisect.bisect_left(listed, f"{folder}/"), bisect.bisect_left(listed, f"{folder}0")
        names = {owner[listed[index]] for index in range(first, end)}
        if len(names) == 1 and "" not in names:
            return names.pop()
        if names:
            break
        folder = folder.rpartition("/")[0]
    raise Unusable(f"{path}: nobody knows which distribution brought it")


def to_renew(source: Source, keep: Collection[str], fresh: Iterable[Installed], taken: Collection[str]) -> set[str]:
    """Distributions of ``keep`` that must be installed anew because of the ``fresh`` ones.

    ``taken`` are paths (relative to the prefix) of the interpreter. A path of two distributions is harmless when both
    bring the same bytes; RECORD says so, but not for scripts, which are rewritten.
    """
    claims: dict[str, set[str]] = defaultdict(set)
    for dist in fresh:
        for line in dist.lines:
            claims[line.path].add(line.digest)
    renew: set[str] = set()
    for item in source.record.contested:
        names = {item.kept, *item.dropped}
        if not names.issubset(keep) or os.path.relpath(item.path, SITE) in claims:
            renew |= names.intersection(keep)
    for name in keep:
        for line in source.dists[name].lines:
            if line.path.startswith("../"):
                clash = line.path in claims or in_prefix(line.path) in taken
            else:
                clash = line.path in claims and claims[line.path] != {line.digest}
            if clash:
                renew.add(name)
                break
    return renew


def changed_folders(source: Source, keep: Collection[str], fresh: Iterable[str]) -> frozenset[str]:
    """Folders (relative to the prefix) whose sources are not those of ``source``.

    ``fresh`` are the paths that the new distributions brought.
    """
    gone = (path for name, paths in source.owned.items() if name not in keep for path in paths)
    return frozenset(
        path.rpartition("/")[0]
        for paths in (gone, fresh)
        for path in paths
        if path.endswith(".py") and path.startswith(f"{LIBRARY}/")
    )


def to_link(
    source: Source, keep: Collection[str], changed: Collection[str], fresh: Set[str], interpreter: Iterable[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """What is taken over: files, and folders with nothing in them.

    ``changed`` are the folders that are compiled anew, ``fresh`` the paths that new distributions brought,
    ``interpreter`` those of the interpreter.
    """
    wanted = {path for name in keep for path in source.owned[name]}
    wanted |= {compiled_path(path) for path in interpreter if path.endswith(".py")}
    wanted &= source.manifest.keys()
    uncompiled = frozenset(source.record.uncompiled)
    for path in [path for path in wanted if path.endswith(f".{TAG}.pyc")]:
        made_from = source_of(path)
        there = made_from in source.manifest or made_from in fresh
        if there and made_from.rpartition("/")[0] in changed and made_from not in uncompiled:
            wanted.discard(path)
    folders = frozenset(path for path in wanted if is_folder(source.manifest[path]))
    return frozenset(wanted - folders), folders


def source_of(compiled: str) -> str:
    """The other way round than :func:`orbit.env.bytecode.compiled_path`."""
    folder, _, name = compiled.rpartition("/")
    return f"{folder.removesuffix('__pycache__')}{name.removesuffix(f'.{TAG}.pyc')}.py"


def link(
    source: Path, manifest: Mapping[str, str], prefix: Path, files: Iterable[str], folders: Iterable[str]
) -> dict[str, str]:
    """Link ``files`` of the tree ``source`` and make ``folders`` below ``prefix``; what is there already stays.

    Returns what was linked, each with the rest of its line in the ``manifest`` of ``source``, for
    :func:`orbit.env.tree.seal` to compare. Raises :class:`Unusable` where the file system has no links, and when a file
    is gone.
    """
    here, there = os.fspath(prefix), os.fspath(source)
    linked: dict[str, str] = {}
    made = {""}
    for path in sorted(files):
        _make_folder(here, path.rpartition("/")[0], made)
        try:
            os.link(f"{there}/{path}", f"{here}/{path}", follow_symlinks=False)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno in CANNOT_LINK:
                raise Unusable(f"{path} cannot be linked: {error.strerror}") from None
            raise
        linked[path] = manifest[path]
    for path in folders:
        _make_folder(here, path, made)
    return linked


def _make_folder(prefix: str, folder: str, made: set[str]) -> None:
    """Make ``folder`` and those above it, unless they are in ``made``, to which they are added."""
    if folder not in made:
        _make_folder(prefix, folder.rpartition("/")[0], made)
        with contextlib.suppress(FileExistsError):
            os.mkdir(f"{prefix}/{folder}")
        made.add(folder)


def still_contested(source: Source, keep: Collection[str]) -> tuple[Contested, ...]:
    """The record of contested paths among the distributions taken over."""
    return tuple(item for item in source.record.contested if {item.kept, *item.dropped}.issubset(keep))
