"""A repository on disk that holds the locked packages and nothing else: what the root file system is made from."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from orbit.core.files import sha256_file
from orbit.errors import InputError
from orbit.image.base.control import paragraphs, read_control
from orbit.image.base.definition import ARCHITECTURE
from orbit.image.base.lock import BaseLock
from orbit.image.base.places import wrong

COMPONENT = "main"


def write_repository(folder: Path, suite: str, lock: BaseLock, debs: Mapping[str, Path]) -> None:
    """Make the new ``folder`` a repository of the locked packages. ``debs`` has their files by package name.

    Every file is copied and then hashed, so that what apt reads is what was checked. The index is made of the control
    files inside the packages; of the archive's own index nothing enters but the hashes in the lock.

    Raises :class:`InputError` for a file with other bytes, or whose control file names another package.
    """
    pool = folder / "pool"
    pool.mkdir(parents=True)
    stanzas = []
    for package in sorted(lock.packages, key=lambda package: package.name):
        target = pool / package.deb
        shutil.copyfile(debs[package.name], target)
        os.chmod(target, 0o644)
        digest = sha256_file(target)
        if digest != package.sha256:
            raise wrong(package, str(debs[package.name].parent), digest)
        control = read_control(target).strip()
        fields = next(paragraphs(control.splitlines()), {})
        said = tuple(fields.get(key, "") for key in ("Package", "Version", "Architecture"))
        if said != (package.name, package.version, package.architecture):
            raise InputError(
                f"{package.deb}: is {' '.join(said)}, the lock says {package.name} {package.version}",
                fix="the lock was edited by hand: restore it, or run `orbit image base refresh`",
            )
        stanzas.append(f"{control}\nFilename: pool/{package.deb}\nSize: {package.size}\nSHA256: {package.sha256}\n")
    index = "\n".join(stanzas).encode()
    place = folder / "dists" / suite
    relative = f"{COMPONENT}/binary-{ARCHITECTURE}/Packages"
    (place / relative).parent.mkdir(parents=True)
    (place / relative).write_bytes(index)
    release = (
        f"Suite: {suite}\nCodename: {suite}\nArchitectures: {ARCHITECTURE}\nComponents: {COMPONENT}\n"
        "Date: Tue, 01 Jan 1980 00:00:00 UTC\n"
        f"SHA256:\n {hashlib.sha256(index).hexdigest()} {len(index)} {relative}\n"
    )
    (place / "Release").write_text(release, encoding="utf-8")
