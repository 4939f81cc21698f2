"""What the readers found, frozen. Rules see these values and nothing else: no file, no clock, no process."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from orbit.audit.dynamic import Dynamic, Export
from orbit.audit.fatbin import Container


class FileFact(NamedTuple):
    """One directory entry, links not followed. Paths are relative to the prefix, with ``/`` between components."""

    mode: int
    """Type and permission bits as in ``st_mode``."""
    uid: int
    gid: int
    size: int
    """Bytes."""
    stamp: tuple[int, int, int, int]
    """Device, inode, modification time and change time (ns): with the size, what tells that a file changed."""

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.mode & 0o170000 == stat.S_IFREG

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where an environment keeps its parts."""

    prefix: Path
    """The folder that was asked about (for a bare site-packages folder: that folder)."""
    site: str
    """site-packages relative to the prefix; empty when the prefix is site-packages itself."""
    python: tuple[int, int]
    """CPython version of the environment."""
    base_interpreter: str
    """For a virtual environment the folder of the interpreter it borrows (``home`` of pyvenv.cfg), else empty."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything under the prefix."""

    entries: Mapping[str, FileFact]
    """By path; the prefix itself is the empty path."""
    links: Mapping[str, str]
    """Target of every symbolic link, by the link's path."""
    denied: tuple[str, ...]
    """Folders that could not be listed by the user who runs the audit."""
    above: tuple[tuple[str, FileFact], ...]
    """The folders above the prefix, outermost first."""


class RecordRow(NamedTuple):
    """One line of a RECORD. ``path`` is relative to the prefix; empty ``digest`` = the line has no hash."""

    path: str
    algorithm: str
    digest: str
    """urlsafe base64 without padding."""
    size: int
    """Bytes, or -1 when not stated."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """One ``*.dist-info`` folder."""

    name: str
    version: str
    folder: str
    """Path of the dist-info folder."""
    rows: tuple[RecordRow, ...]
    outside: tuple[str, ...]
    """RECORD paths that lead out of the prefix, as written."""
    tags: tuple[str, ...]
    """``Tag`` lines of WHEEL."""
    problem: str
    """Why the metadata could not be used, or empty."""


@dataclass(frozen=True, slots=True)
class SharedObject:
    """One ELF file with its device code and its dynamic facts."""

    path: str
    machine: int
    """``e_machine``."""
    containers: tuple[Container, ...]
    dynamic: Dynamic | None
    """None for a static program or a bare object."""


@dataclass(frozen=True, slots=True)
class Environment:
    """All facts about one installed environment."""

    layout: Layout
    tree: Tree
    dists: tuple[Distribution, ...]
    objects: tuple[SharedObject, ...]
    exports: Mapping[str, frozenset[Export]]
    """Exported symbols of every library that some version need names, by path."""
    damaged: Mapping[str, str]
    """ELF files that could not be read, with the reason."""
    num_remembered: int
    """How many of ``digests`` come from the fact cache."""
    digests: Mapping[str, str]
    """For hashed files the digest in RECORD's spelling, or ``!reason`` when reading failed; by path."""
    owners: Mapping[str, str]
    """Distribution name by path, the first owner in order of name."""

    def in_site(self, path: str) -> str:
        """``path`` relative to site-packages when it lies there, else unchanged: the way people know it."""
        start = f"{self.layout.site}/"
        return path.removeprefix(start) if self.layout.site else path


def printable(text: str) -> str:
    """``text`` with file name bytes that are not UTF-8 written as ``\\udcff``: what can stand in a report."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def join(*parts: str) -> str:
    """Join relative paths, ignoring empty ones."""
    return "/".join(part for part in parts if part)
