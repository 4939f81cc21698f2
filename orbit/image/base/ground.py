"""Where a root file system is put together: a folder whose leftovers can be found and deleted after a kill.

mmdebstrap makes its root below ``TMPDIR``. As root that is a folder of the store. Without root it works as other user
ids (/etc/subuid), which must be able to reach the folder and whose files the caller cannot delete by plain means: then
it is one in the store when all folders above it may be entered by everybody, else one of the system's folder for
temporary files.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from orbit.core import proc, tools
from orbit.core.files import remove_tree
from orbit.core.store import Store
from orbit.errors import CommandFailed, MissingError

PREFIX = "orbit-base."
REMOVE_TIMEOUT_S = 300.0
_COUNT = itertools.count()


@contextlib.contextmanager
def ground(store: Store) -> Iterator[Path]:
    """A fresh folder that everybody may enter, removed at the end; what killed runs left is removed first."""
    parent = _parent(store)
    parent.mkdir(parents=True, exist_ok=True)
    sweep(parent)
    folder = parent / f"{PREFIX}{os.getuid()}.{os.getpid()}.{next(_COUNT)}"
    remove(folder)
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        remove(folder)


def _parent(store: Store) -> Path:
    own = store.root / "base"
    if os.geteuid() == 0 or everybody_enters(own):
        return own
    return Path(tempfile.gettempdir())


def everybody_enters(path: Path) -> bool:
    """Whether any user id may enter ``path``, or the nearest folder above that exists, and all folders above that."""
    there = [place for place in (path.absolute(), *path.absolute().parents) if place.exists()]
    return all(place.stat().st_mode & 0o001 for place in there)


def sweep(parent: Path) -> None:
    """Remove what runs of this user left that no longer live."""
    for leftover in parent.glob(f"{PREFIX}{os.getuid()}.*"):
        pid = leftover.name.removeprefix(PREFIX).split(".")[1:2]
        mine = not leftover.is_symlink() and leftover.stat().st_uid == os.getuid()
        if mine and pid and pid[0].isdigit() and not os.path.exists(f"/proc/{pid[0]}"):
            remove(leftover)


def remove(folder: Path) -> None:
    """Delete such a folder, also the files of other user ids in it."""
    try:
        remove_tree(folder)
    except PermissionError:
        if os.geteuid() == 0:
            raise
        # the files belong to ids that are only ours inside a user namespace; the folder itself is ours
        with contextlib.suppress(CommandFailed, MissingError):
            proc.run(
                [tools.find("mmdebstrap"), "--unshare-helper", "sh", "-c", 'rm -rf -- "$1"/*/*', "sh", str(folder)],
                doing="deleting a root file system",
                timeout_s=REMOVE_TIMEOUT_S,
            )
        remove_tree(folder)
