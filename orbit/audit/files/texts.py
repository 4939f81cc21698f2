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
"""What makes a distribution; read by ``orbit.audit.installed.dists``."""
PACKAGES = re.compile(r"^var/lib/dpkg/(status|info/[^/]+\.list)$")
"""What is known of Debian packages: their versions and their files. No rule reads them; who asks what fills an image
does."""
WANTED = re.compile(
    r"\.dist-info/(top_level\.txt|entry_points\.txt)$"
    r"|\.egg-info/(top_level\.txt|installed-files\.txt)$"
    r"|(^|/)pyvenv\.cfg$"
    r"|/(site|dist)-packages/[^/]*\.(pth|egg-link)$"
    r"|/(site|dist)-packages/__editable__[^/]*\.py$"
    r"|(^|/)share/orbit/[^/]+\.(json|sh)$"
    r"|(^|/)[^/]*entrypoint(\.sh|\.bash)?$|(^|/)entrypoint\.d/[^/]+\.sh$|^/[^/]+\.sh$"
    r"|/cpp_lib\.json$"
    r"|(^|/)conda-meta/[^/]+\.json$"
    r"|(^|/)etc/(ld\.so\.cache|ld\.so\.conf|ld\.so\.conf\.d/[^/]+|ld\.so\.preload|passwd|group|os-release|environment)$"
    r"|(^|/)usr/lib/os-release$"
    r"|(^|/)usr/local/cuda[^/]*/version\.json$"
)
"""What rules read besides."""


SYSTEM_NAMES = ("ld.so.cache", "ld.so.conf", "ld.so.preload", "passwd", "group", "os-release", "environment")
NAMES = frozenset(
    (
        "top_level.txt",
        "entry_points.txt",
        "installed-files.txt",
        "cpp_lib.json",
        "pyvenv.cfg",
        "version.json",
        *SYSTEM_NAMES,
    )
)
ENDS = (".pth", ".egg-link", ".sh")
BULK = (".pyc", ".h", ".hpp", ".cuh", ".pyi", ".so")
"""Most files; none of them is wanted."""
FOLDERS = ("ld.so.conf.d/", "share/orbit/", "conda-meta/", "entrypoint")


def is_wanted(path: str) -> bool:
    """Whether the content of a file of this path is kept as a fact.

    The regular expression is the truth; the tests before it only spare a hundred thousand paths that cannot match.
    """
    if path.endswith(BULK):
        return False
    name = path[path.rfind("/") + 1 :]
    if name in NAMES or name.endswith(ENDS) or name.startswith("__editable__") or any(map(path.__contains__, FOLDERS)):
        return WANTED.search(f"/{path}") is not None
    return False


HEADS = re.compile(r"(^|/)bin/[^/]+$")
"""Of these the first :data:`HEAD_BYTES` are kept: the line that names a script's interpreter."""
HEAD_BYTES = 256
"""As much as the kernel reads of a script (BINPRM_BUF_SIZE)."""


def is_head_wanted(path: str) -> bool:
    """Whether the first :data:`HEAD_BYTES` of a file of this path are kept as a fact."""
    return "bin/" in path and HEADS.search(path) is not None and not is_wanted(path)


def read_text(root: Path, path: str, limit: int | None = None) -> bytes | None:
    """The content of a regular file below ``root``; None when it cannot be read or is too long. Never waits.

    With ``limit`` so many bytes of a file of any length.
    """
    try:
        handle = os.open(root / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or (limit is None and info.st_size > MAX_BYTES):
            return None
        with os.fdopen(os.dup(handle), "rb") as file:
            return file.read(MAX_BYTES if limit is None else limit)
    except OSError:
        return None
    finally:
        os.close(handle)


def read_texts(root: Path, tree: Tree) -> dict[str, bytes]:
    """The wanted files of an environment on disk, by path."""
    found: dict[str, bytes] = {}
    for path, fact in tree.entries.items():
        if not fact.is_file:
            continue
        limit = HEAD_BYTES if is_head_wanted(path) else None
        if (limit or is_wanted(path)) and (content := read_text(root, path, limit)) is not None:
            found[path] = content
    return found
