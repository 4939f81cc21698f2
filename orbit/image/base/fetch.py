"""The locked packages on this machine: from the store, else from the first place that has them, known by sha256.

One entry of the store per package. What arrived of an interrupted download is continued.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orbit.core.amounts import format_bytes
from orbit.core.console import BYTES, Progress
from orbit.core.files import require_free, sha256_file
from orbit.core.store import Store
from orbit.errors import MissingError
from orbit.image.base.apt import host_name, host_repositories
from orbit.image.base.definition import BaseDefinition
from orbit.image.base.lock import REFRESH, BaseLock, LockedPackage
from orbit.image.base.places import VARIABLE, Folder, HostArchive, Mirrors, Place, arrival, mirrors, wrong
from orbit.kernels.sources import VARIABLE as FOLDERS
from orbit.kernels.sources import source_folders

FORMAT = 1
KIND = "deb"
DOWNLOADS = "downloads"
"""Folder of the store; what is in it is verified before it becomes an entry."""


def find_places(definition: BaseDefinition, *, offline: bool = False) -> tuple[Place, ...]:
    """Where to look, in order: folders, then the mirrors that are named, else the host's archive.

    With ``offline`` only folders.
    """
    found: list[Place] = [Folder(folder) for folder in source_folders()]
    if offline:
        return tuple(found)
    named = mirrors()
    if named:
        return (*found, Mirrors(named))
    try:
        repositories = host_repositories(definition)
    except MissingError:  # no apt here: then there is no archive of the host's apt
        repositories = ()
    return (*found, HostArchive(repositories)) if repositories else tuple(found)


def deb_inputs(package: LockedPackage) -> dict[str, Any]:
    """The key of a package in the store."""
    return {"format": FORMAT, "file": package.deb, "sha256": package.sha256}


def stored(package: LockedPackage, store: Store) -> Path | None:
    """The package in the store, verified; None when it is not there."""
    entry = store.find(KIND, deb_inputs(package))
    return entry.path / package.deb if entry else None


class _Meter:
    """Counts what arrived; threads may share it."""

    def __init__(self, wanted: Sequence[LockedPackage], progress: Progress) -> None:
        self.total = sum(package.size for package in wanted)
        self.done = 0
        self.progress = progress
        self.lock = threading.Lock()

    def told(self, package: LockedPackage) -> None:
        """One more."""
        with self.lock:
            self.done += package.size
            self.progress.advance("base: fetching packages", self.done, self.total, BYTES)


def obtain_packages(
    lock: BaseLock, store: Store, places: Sequence[Place], progress: Progress, *, name: str = "base"
) -> dict[str, Path]:
    """Every package of the lock as a verified file in the store, by package name.

    Raises :class:`MissingError` naming each file that cannot be had, where it was sought and where to put it, and
    :class:`InputError` for a file with other bytes than the lock says. Whatever was fetched stays in the store.
    """
    found = {package.name: path for package in lock.packages if (path := stored(package, store))}
    missing = [package for package in lock.packages if package.name not in found]
    problems: dict[str, list[str]] = {package.deb: [] for package in missing}
    folder = store.root / DOWNLOADS
    if missing:
        size = sum(package.size for package in missing)
        require_free(folder, 2 * size, "fetching the base's packages")
        progress.step(f"base: getting {len(missing)} of {len(lock.packages)} packages, {format_bytes(size)}")
    meter = _Meter(missing, progress)
    for place in places:
        if not missing:
            break
        try:
            said = place.get(missing, folder, meter.told)
        finally:
            for package in missing:
                if arrival(folder, package).is_file():
                    found[package.name] = _keep(package, arrival(folder, package), store)
        for package in missing:
            if package.name not in found:
                problems[package.deb].append(f"{place.name}: {said.get(package.deb, 'not there')}")
        missing = [package for package in missing if package.name not in found]
    if missing:
        raise _not_to_be_had(missing, problems, places, name)
    return found


def require_places(lock: BaseLock, store: Store, places: Sequence[Place], *, name: str = "base") -> None:
    """Raise :class:`MissingError` when packages are missing and no archive could have them: nothing is asked, and what
    takes an hour need not be done before that is known."""
    if any(isinstance(place, Mirrors | HostArchive) for place in places):
        return
    folders = [place for place in places if isinstance(place, Folder)]
    missing = [
        package
        for package in lock.packages
        if not stored(package, store) and not any(folder.find(package) for folder in folders)
    ]
    if missing:
        problems = {package.deb: [f"{folder.name}: not there" for folder in folders] for package in missing}
        raise _not_to_be_had(missing, problems, places, name)


def _keep(package: LockedPackage, path: Path, store: Store) -> Path:
    """Make a fetched file an entry of the store."""

    def work(folder: Path) -> dict[str, Any]:
        digest = sha256_file(path)
        if digest != package.sha256:
            path.unlink()
            raise wrong(package, str(path.parent), digest)
        os.chmod(path, 0o644)
        os.rename(path, folder / package.deb)
        return {"file": package.deb, "bytes": package.size}

    entry = store.obtain(KIND, deb_inputs(package), work)
    path.unlink(missing_ok=True)
    return entry.path / package.deb


def _not_to_be_had(
    missing: Sequence[LockedPackage], problems: dict[str, list[str]], places: Sequence[Place], name: str
) -> MissingError:
    lines = [f"{len(missing)} packages of the base cannot be had:"]
    common = set.intersection(*(set(problems[package.deb]) for package in missing)) if len(missing) > 1 else set()
    for package in missing:
        lines.append(f"  {package.file}  sha256 {package.sha256}")
        lines += [f"      {problem}" for problem in dict.fromkeys(problems[package.deb]) if problem not in common]
    lines += [f"  all of them: {problem}" for problem in sorted(common)]
    if not any(isinstance(place, Mirrors | HostArchive) for place in places):
        lines.append(f"  {no_place()}")
    return MissingError(
        "\n".join(lines),
        fix=f"put these files into a folder that {FOLDERS} names (`orbit image base export` makes one where there is "
        f"a network), or name a mirror that has them in {VARIABLE} (a snapshot of {newest(missing)});\n"
        f"  or, if Debian has replaced them: `{REFRESH}` changes containers/{name}.lock to what the archive has today",
    )


def no_place() -> str:
    """Why no archive was asked, in a sentence with what to do about it."""
    host = host_name()
    here = f"this machine's apt knows no Debian archive{f' (it is {host})' if host else ''}"
    return f'{here}: name mirrors of Debian, {VARIABLE}="http://HOST/debian http://HOST/debian-security"'


def newest(packages: Sequence[LockedPackage]) -> str:
    """The suites the packages are from, for a message."""
    return ", ".join(sorted({package.archive for package in packages}))
