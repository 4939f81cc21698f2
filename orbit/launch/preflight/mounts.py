"""The mount table: which file system a path lies on, and how it is mounted. No path is touched, so nothing can hang."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.launch.preflight.below import text
from orbit.launch.preflight.rules import Files

ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """One mount (proc_pid_mountinfo(5))."""

    point: str
    kind: str
    """``ext4``, ``nfs4``, ``fuse.sshfs``."""
    source: str = ""
    options: tuple[str, ...] = ()
    """Those of the mount and those of its file system."""

    def is_remote(self, files: Files) -> bool:
        """Whether other machines see it, or serve it."""
        return any(fnmatch.fnmatchcase(self.kind, pattern) for pattern in files.remote)

    def local_locks(self, files: Files) -> str:
        """The option with which locks hold on this machine only; empty when there is none."""
        return next((option for option in self.options if option in files.local_locks), "")


def read_mounts(root: Path) -> tuple[Mounted, ...]:
    """``/proc/self/mountinfo`` below ``root``, in its order: later ones lie on top."""
    found = []
    for line in text(root, "proc/self/mountinfo").splitlines():
        before, separator, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if separator and len(left) >= 6 and len(right) >= 2:
            options = (*left[5].split(","), *(right[2].split(",") if len(right) > 2 else ()))
            found.append(Mounted(point=_plain(left[4]), kind=right[0], source=_plain(right[1]), options=options))
    return tuple(found)


def mount_of(path: str, mounts: Sequence[Mounted]) -> Mounted | None:
    """The mount that ``path`` (absolute; links in it are not followed) lies on; None when the table is empty."""
    best: Mounted | None = None
    clean = os.path.normpath(path)
    for mount in mounts:
        inside = clean == mount.point or clean.startswith(mount.point.rstrip("/") + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _plain(word: str) -> str:
    return ESCAPE.sub(lambda match: chr(int(match[1], 8)), word)
