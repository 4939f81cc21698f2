"""Which small files of a target rules read, and how much of them."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from orbit.audit.facts import Tree

MAX_BYTES = 4 << 20
"""Larger files of these names are not read: the longest a rule wants is a RECORD of 2 MB."""
METADATA = re.compile(r"\.dist-info/(METADATA|WHEEL|RECORD|INSTALLER|direct_url\.json)$")
"""What makes a distribution; read by ``orbit.audit.dists``."""
WANTED = re.compile(
    r"\.dist-info/(top_level\.txt|entry_points\.txt)$"
    r"|(^|/)pyvenv\.cfg$"
    r"|/(site|dist)-packages/[^/]*\.(pth|egg-link)$"
    r"|/(site|dist)-packages/__editable__[^/]*\.py$"
    r"|(^|/)share/orbit/[^/]+\.json$"
    r"|(^|/)conda-meta/[^/]+\.json$"
    r"|(^|/)etc/(ld\.so\.cache|ld\.so\.conf|ld\.so\.conf\.d/[^/]+|ld\.so\.preload|passwd|group|os-release|environment)$"
    r"|(^|/)usr/lib/os-release$"
    r"|(^|/)usr/local/cuda[^/]*/version\.json$"
)
"""What rules read besides."""


SYSTEM_NAMES = ("ld.so.cache", "ld.so.conf", "ld.so.preload", "passwd", "group", "os-release", "environment")
NAMES = frozenset(("top_level.txt", "entry_points.txt", "pyvenv.cfg", "version.json", *SYSTEM_NAMES))
ENDS = (".pth", ".egg-link")
FOLDERS = ("ld.so.conf.d/", "share/orbit/", "conda-meta/")


def is_wanted(path: str) -> bool:
    """Whether the content of a file of this path is kept as a fact.

    The regular expression is the truth; the tests before it only spare a hundred thousand paths that cannot match.
    """
    name = path[path.rfind("/") + 1 :]
    if name in NAMES or name.endswith(ENDS) or name.startswith("__editable__") or any(map(path.__contains__, FOLDERS)):
        return WANTED.search(f"/{path}") is not None
    return False


def read_text(root: Path, path: str) -> bytes | None:
    """The content of a regular file below ``root``; None when it cannot be read or is too long. Never waits."""
    try:
        handle = os.open(root / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_BYTES:
            return None
        with os.fdopen(os.dup(handle), "rb") as file:
            return file.read(MAX_BYTES)
    except OSError:
        return None
    finally:
        os.close(handle)


def read_texts(root: Path, tree: Tree) -> dict[str, bytes]:
    """The wanted files of an environment on disk, by path."""
    found: dict[str, bytes] = {}
    for path, fact in tree.entries.items():
        if fact.is_file and is_wanted(path) and (content := read_text(root, path)) is not None:
            found[path] = content
    return found
