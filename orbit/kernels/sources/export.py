"""Collect everything that recipes need into one folder: what ``ORBIT_SOURCES`` of a machine without network takes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from orbit.core.console import Progress
from orbit.core.files import sha256_file, sync_folder, write_atomic
from orbit.core.findings import Skipped
from orbit.core.records import Record
from orbit.core.store import Store
from orbit.errors import MissingError, OrbitError
from orbit.kernels.sources.archives import check_archive, obtain_archive
from orbit.kernels.sources.git import REF, git
from orbit.kernels.sources.model import Pin
from orbit.kernels.sources.places import Place, bundle_name, source_folders
from orbit.kernels.sources.repositories import REPOSITORY, obtain_commit, place_has
from orbit.kernels.sources.survey import Needed, needed
from orbit.profile.model import Profile

SUMS = "SHA256SUMS"


class Exported(Record, frozen=True, kw_only=True):
    """One file of the folder."""

    file: str
    recipes: tuple[str, ...]
    """Those that need it."""
    sha256: str
    size: int
    """Bytes."""
    reused: bool
    """True when it was there already."""


class Export(Record, frozen=True, kw_only=True):
    """What is in the folder now, and what could not be had."""

    folder: str
    files: tuple[Exported, ...]
    missing: tuple[Skipped, ...]
    """Each with what to fetch and where to put it: the folder is not complete."""


def export_sources(
    profile: Profile,
    root: Path,
    store: Store,
    folder: Path,
    progress: Progress,
    *,
    tier: str,
    folders: tuple[Path, ...] | None = None,
) -> Export:
    """Put sdists, wheels of prebuilt recipes and a bundle of each commit into ``folder``, under the names looked for.

    Local sources and patches travel with the checkout. What cannot be reached comes back in ``missing``; the rest is
    collected. A second call writes what is new. ``sha256sum -c SHA256SUMS`` checks the folder on the other machine.
    """
    places = source_folders() if folders is None else folders
    folder.mkdir(parents=True, exist_ok=True)
    users: dict[str, list[Needed]] = {}
    for need in needed(profile, root, tier=tier):
        if need.source.kind != "local":
            users.setdefault(bundle_name(need.pin) if need.pin else need.source.file, []).append(need)
    files, missing = [], []
    for name, needs in users.items():
        try:
            reused = put(needs[0], folder / name, store, progress, places)
        except MissingError as error:
            missing.append(Skipped(what=f"{needs[0].recipe}: {name}", reason=str(error)))
            continue
        path = folder / name
        recipes = tuple(dict.fromkeys(need.recipe for need in needs))
        files.append(
            Exported(file=name, recipes=recipes, sha256=sha256_file(path), size=path.stat().st_size, reused=reused)
        )
    write_atomic(folder / SUMS, "".join(f"{file.sha256}  {file.file}\n" for file in files).encode())
    return Export(folder=str(folder), files=tuple(files), missing=tuple(missing))


def put(need: Needed, path: Path, store: Store, progress: Progress, folders: tuple[Path, ...]) -> bool:
    """Put one thing at ``path``; True when a good one was there."""
    if path.is_file() and _good(need, path, store):
        return True
    partial = path.with_name(f".{path.name}.partial")
    if need.pin is None:
        shutil.copyfile(obtain_archive(need.source, store, progress, folders), partial)
    else:
        _bundle(need.pin, partial, store, progress, folders)
    with open(partial, "rb") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)
    sync_folder(path.parent)
    return False


def _bundle(pin: Pin, path: Path, store: Store, progress: Progress, folders: tuple[Path, ...]) -> None:
    repository = obtain_commit(pin, store, progress, folders).path / REPOSITORY
    git(repository, "bundle", "create", "--quiet", str(path.absolute()), REF, doing=f"write {path.name}")


def _good(need: Needed, path: Path, store: Store) -> bool:
    try:
        if need.pin is not None:
            return place_has(Place(path=path, bundle=True), need.pin, store)
        check_archive(path, need.source)
    except OrbitError:
        return False
    return True
