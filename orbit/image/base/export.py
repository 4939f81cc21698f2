"""All packages of a lock in one folder: what ``ORBIT_SOURCES`` of a machine without network takes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from orbit.core.files import require_free, sha256_file, sync_folder, write_atomic
from orbit.core.records import Record
from orbit.image.base.lock import BaseLock, LockedPackage
from orbit.image.base.places import wrong

SUMS = "SHA256SUMS.base"
"""Beside the SHA256SUMS of exported kernel sources, so that one folder can hold both."""


class ExportedFile(Record, frozen=True, kw_only=True):
    """One file of the folder."""

    file: str
    sha256: str
    size: int
    reused: bool
    """It was there already."""


def export_packages(lock: BaseLock, debs: Mapping[str, Path], folder: Path) -> tuple[ExportedFile, ...]:
    """Put the packages into ``folder`` by their file names; what is there and right stays.

    ``sha256sum -c SHA256SUMS.base`` checks the folder on the other machine.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = unwritten(lock, folder)
    require_free(folder, sum(package.size for package in missing), "exporting the base's packages")
    for package in missing:
        target = folder / package.deb
        partial = target.with_name(f".{target.name}.partial")
        try:
            shutil.copyfile(debs[package.name], partial)
            if (digest := sha256_file(partial)) != package.sha256:
                raise wrong(package, str(debs[package.name].parent), digest)
            with open(partial, "rb") as file:
                os.fsync(file.fileno())
            os.replace(partial, target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    sync_folder(folder)
    write_atomic(folder / SUMS, "".join(f"{package.sha256}  {package.deb}\n" for package in lock.packages).encode())
    written = {package.name for package in missing}
    return tuple(
        ExportedFile(file=package.deb, sha256=package.sha256, size=package.size, reused=package.name not in written)
        for package in lock.packages
    )


def unwritten(lock: BaseLock, folder: Path) -> list[LockedPackage]:
    """The packages that ``folder`` does not have."""
    return [package for package in lock.packages if not _right(folder / package.deb, package)]


def _right(path: Path, package: LockedPackage) -> bool:
    return path.is_file() and path.stat().st_size == package.size and sha256_file(path) == package.sha256
