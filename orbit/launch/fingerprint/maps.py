"""``/proc/<pid>/maps`` as the shared libraries of a process (proc_pid_maps(5))."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from orbit.audit.binary.dynamic import read_dynamic
from orbit.audit.binary.elf import MalformedElf, open_if_elf

DELETED = " (deleted)"
ESCAPED = re.compile(r"\\([0-7]{3})")
NO_FILES = ("/dev/", "/memfd:", "/SYSV", "/anon_hugepage")
"""Beginnings of what looks like a path there and is no library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """One file whose code is mapped."""

    path: str
    deleted: bool = False
    """The file that was mapped is not there any more: replaced, or removed."""


def mapped(maps: str, *, program: str = "") -> tuple[Mapped, ...]:
    """The files mapped with the right to run code, each once, sorted by path; ``program`` itself is left out."""
    found: dict[str, Mapped] = {}
    for line in maps.splitlines():
        parts = line.split(maxsplit=5)
        if len(parts) < 6 or "x" not in parts[1] or not parts[5].startswith("/"):
            continue
        deleted = parts[5].endswith(DELETED)
        path = ESCAPED.sub(lambda match: chr(int(match[1], 8)), parts[5].removesuffix(DELETED))
        if path != program and not path.startswith(NO_FILES):
            found[path] = Mapped(path=path, deleted=deleted or (path in found and found[path].deleted))
    return tuple(found[path] for path in sorted(found))


def soname(path: str) -> str:
    """The name a library has for the loader; that of its file when it has none, or cannot be read."""
    try:
        with open_if_elf(Path(path)) as elf:
            dynamic = read_dynamic(elf) if elf is not None else None
    except (OSError, MalformedElf):
        dynamic = None
    return (dynamic.soname if dynamic else "") or path.rpartition("/")[2]
