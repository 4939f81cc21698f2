"""What every laid-out source has in common: links that stay inside, modes 644 and 755, one fixed time."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from orbit.errors import InputError

EPOCH_S = 315532800
"""1980-01-01: SOURCE_DATE_EPOCH of every build. With equal times no make rule sees a generated file as out of date."""

PLAIN, EXECUTABLE = 0o644, 0o755


def settle(folder: Path, what: str) -> None:
    """Fix modes and times of everything in ``folder``.

    Raises :class:`InputError` for a link that leads out of the folder and for what is neither file, folder nor link.
    """
    inside = os.path.realpath(folder)
    for root, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            path = os.path.join(root, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                target = os.path.realpath(path)
                if target != inside and not target.startswith(f"{inside}/"):
                    raise InputError(
                        f"{what}: {os.path.relpath(path, folder)} links to {os.readlink(path)}, outside of the source",
                        fix="this is no source to build from; look at it and at who made it",
                    )
            elif stat.S_ISREG(mode):
                os.chmod(path, EXECUTABLE if mode & 0o100 else PLAIN)
            elif stat.S_ISDIR(mode):
                os.chmod(path, EXECUTABLE)
            else:
                raise InputError(f"{what}: {os.path.relpath(path, folder)} is neither file nor folder")
            os.utime(path, (EPOCH_S, EPOCH_S), follow_symlinks=False)
    os.chmod(folder, EXECUTABLE)
    os.utime(folder, (EPOCH_S, EPOCH_S))


def check_files(folder: Path, patterns: Sequence[str], what: str) -> None:
    """Raise :class:`InputError` when some pattern matches no file of ``folder``: the source is hollow.

    A release can lack its sources (a missing line in MANIFEST.in) and still build something, without the kernels.
    """
    if not patterns:
        return
    names = [os.path.relpath(os.path.join(root, name), folder) for root, _, files in os.walk(folder) for name in files]
    missing = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]
    if missing:
        raise InputError(
            f"{what}: the source is hollow, no file matches {', '.join(missing)}",
            fix="take the source from git instead (source.kind = 'git'), or another release",
        )
