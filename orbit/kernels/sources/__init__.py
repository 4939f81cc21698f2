"""Where sources come from: sdists and wheels of the lock, git commits, local folders; laid out complete and patched.

Two calls do everything, whatever the kind::

    got = obtain(recipe, source, store, root, progress)     the only step that may use the network
    project = unpack(got, folder)                           complete, patched, verified; ``project`` holds setup.py
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from orbit.core.console import Progress
from orbit.core.files import link_or_copy, tree_hash
from orbit.core.store import Store
from orbit.errors import InputError
from orbit.kernels.recipe import Recipe
from orbit.kernels.sources.archives import check_archive, obtain_archive, unpack_sdist
from orbit.kernels.sources.layout import check_files, settle
from orbit.kernels.sources.model import PatchFile, Pin, Source, read_patch, resolve_source
from orbit.kernels.sources.patches import apply_patch
from orbit.kernels.sources.places import VARIABLE, source_folders
from orbit.kernels.sources.repositories import REPOSITORY, check_submodules, obtain_commit, read_pinned
from orbit.kernels.sources.tree import Tree, write_tree

__all__ = [
    "VARIABLE",
    "Obtained",
    "PatchFile",
    "Pin",
    "Source",
    "obtain",
    "resolve_source",
    "source_folders",
    "unpack",
]


@dataclass(frozen=True, slots=True)
class Obtained:
    """A source that is on this machine, whole and verified, but not laid out."""

    recipe: Recipe
    source: Source
    root: Path
    """The checkout: where patches and local folders are."""
    archive: Path | None = None
    """The sdist or wheel in the store."""
    repositories: tuple[tuple[Pin, Path], ...] = ()
    """Git: each pinned repository in the store, outer ones first."""


def obtain(
    recipe: Recipe,
    source: Source,
    store: Store,
    root: Path,
    progress: Progress,
    *,
    folders: tuple[Path, ...] | None = None,
) -> Obtained:
    """Get everything of a source onto this machine: from ``folders`` (by default ``ORBIT_SOURCES``), else the network.

    What is in the store already is taken from there. ``root`` is the checkout.

    Raises :class:`MissingError` naming what to fetch and where to put it when a source cannot be reached (exit 3: other
    kernels can still be built), :class:`InputError` for damaged copies and for pins that contradict each other.
    """
    places = source_folders() if folders is None else folders
    match source.kind:
        case "sdist" | "wheel":
            return Obtained(recipe, source, root, archive=obtain_archive(source, store, progress, places))
        case "git":
            got = tuple((pin, obtain_commit(pin, store, progress, places).path / REPOSITORY) for pin in source.pins)
            _trees(recipe, source, got)
            return Obtained(recipe, source, root, repositories=got)
    return Obtained(recipe, source, root)


def unpack(got: Obtained, folder: Path) -> Path:
    """Lay the source out in ``folder`` (not there yet), patched, with fixed modes and times; the project's own folder.

    That is ``folder`` itself, or ``subdirectory`` in it. A wheel is laid out as the one file it is. Raises
    :class:`InputError` for a hollow or hostile source, :class:`CheckFailed` for a patch that does not fit exactly.
    """
    recipe, source = got.recipe, got.source
    what = f"{recipe.name} {source.version}"
    match source.kind:
        case "sdist":
            assert got.archive is not None
            unpack_sdist(got.archive, folder)
        case "wheel":
            assert got.archive is not None
            check_archive(got.archive, source)  # the store does not hash it at every use
            folder.mkdir()
            link_or_copy(got.archive, folder / source.file)
            return folder
        case "local":
            _copy(got.root / source.file, folder, source)
        case _:
            trees = _trees(recipe, source, got.repositories)
            for pin, repository in got.repositories:
                write_tree(repository, trees[pin.path], folder / pin.path)
    check_files(folder, recipe.source.files, what)
    for patch in source.patches:
        apply_patch(read_patch(recipe.name, patch, got.root), f"kernels/patches/{recipe.name}/{patch.file}", folder)
    settle(folder, what)
    project = folder / source.subdirectory
    if not project.is_dir():
        raise InputError(f"{what}: the source has no folder {source.subdirectory}", fix="correct source.subdirectory")
    return project


def _trees(recipe: Recipe, source: Source, repositories: tuple[tuple[Pin, Path], ...]) -> dict[str, Tree]:
    """The verified trees by their path in the source, submodules compared with what the recipe names."""
    trees = {pin.path: read_pinned(repository, pin) for pin, repository in repositories}
    check_submodules(source, recipe.source.unused_submodules, trees, recipe.name)
    return trees


def _copy(origin: Path, folder: Path, source: Source) -> None:
    shutil.copytree(origin, folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    if tree_hash(folder) != source.sha256:
        raise InputError(f"{origin}: changed since the plan was made", fix="run the same command again")
