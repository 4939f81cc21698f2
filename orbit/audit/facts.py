"""What the readers found, frozen. Rules see these values and nothing else: no file, no clock, no process."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from orbit.audit.binary.dynamic import Dynamic, Export
from orbit.audit.binary.fatbin import Container

type Kind = Literal["environment", "image", "wheels"]
"""What was audited: an installed environment; a whole image; wheels, seen as if they were installed together."""


class FileFact(NamedTuple):
    """One directory entry, links not followed. Paths are relative to the tree's root, ``/`` between components."""

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
    """Where a target keeps its parts."""

    prefix: Path
    """The folder that was asked about (for a bare site-packages folder: that folder); ``/`` for an image and wheels."""
    site: str
    """The main site-packages relative to the tree's root; empty when the root is site-packages itself."""
    python: tuple[int, int]
    """CPython version of the environment."""
    base_interpreter: str
    """For a virtual environment the folder of the interpreter it borrows (``home`` of pyvenv.cfg), else empty."""
    others: tuple[str, ...] = ()
    """Further site-packages of the tree: an image may hold several interpreters."""
    home: str = ""
    """The folder of ``bin``, ``lib`` and ``share`` relative to the tree's root: empty for an environment that is the
    tree itself, ``opt/orbit`` in an image."""

    @property
    def sites(self) -> tuple[str, ...]:
        """All site-packages folders, the main one first."""
        return (self.site, *self.others)


@dataclass(frozen=True, slots=True)
class Tree:
    """Every entry of a target."""

    entries: Mapping[str, FileFact]
    """By path; the root itself is the empty path."""
    links: Mapping[str, str]
    """Target of every symbolic link, by the link's path."""
    denied: tuple[str, ...]
    """Folders that could not be listed by the user who runs the audit."""
    above: tuple[tuple[str, FileFact], ...]
    """The folders above the root, outermost first; none for a whole root file system."""
    rooted: bool = False
    """The tree is a whole root file system: absolute links and paths lead inside it."""
    roots: tuple[str, ...] = ()
    """Absolute paths at which the tree lies: an absolute link below one of them leads inside it."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The configuration of an image."""

    reference: str
    """What it was found as."""
    digest: str
    """``sha256:...`` of the manifest, else of the configuration."""
    user: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    working_dir: str
    labels: Mapping[str, str]
    architecture: str
    layers: tuple[str, ...]
    """Digests of the unpacked layers (diff ids), lowest first."""


class RecordRow(NamedTuple):
    """One line of a RECORD. ``path`` is relative to the prefix; empty ``digest`` = the line has no hash."""

    path: str
    algorithm: str
    digest: str
    """urlsafe base64 without padding."""
    size: int
    """Bytes, or -1 when not stated."""


class Disorder(NamedTuple):
    """One way in which the archive of a wheel contradicts itself; ``orbit.audit.rules.integrity.wheel_archive`` knows
    the kinds."""

    kind: str
    names: tuple[str, ...]
    """Members, or the values that differ."""


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
    site: str = ""
    """The site-packages folder it is installed in."""
    pure: bool | None = None
    """``Root-Is-Purelib`` of WHEEL; None when not stated."""
    requires: tuple[str, ...] = ()
    """``Requires-Dist`` lines of METADATA."""
    requires_python: str = ""
    extras: tuple[str, ...] = ()
    """``Provides-Extra`` lines, normalised."""
    summary: str = ""
    """``Summary`` of METADATA; empty when it has none."""
    installer: str = ""
    direct_url: Mapping[str, object] = field(default_factory=dict)
    """``direct_url.json`` as read; empty when the distribution came from an index."""
    wheel_file: str = ""
    """File name of the wheel, for wheels that are not installed."""
    disorders: tuple[Disorder, ...] = ()
    """What is wrong with the archive, for wheels that are not installed."""


@dataclass(frozen=True, slots=True)
class SharedObject:
    """One ELF file with its device code and its dynamic facts."""

    path: str
    machine: int
    """``e_machine``."""
    containers: tuple[Container, ...]
    dynamic: Dynamic | None
    """None for a static program or a bare object."""
    release: str = ""
    """The release the library states of itself (``2.28.9``), read from its bytes; see
    ``orbit.audit.files.releases``."""
    embedded: tuple[tuple[str, str], ...] = ()
    """(family, release) of libraries that are linked into it statically, as its bytes state them."""


@dataclass(frozen=True, slots=True)
class Environment:
    """All facts about one target, seen as what is installed in it."""

    layout: Layout
    tree: Tree
    dists: tuple[Distribution, ...]
    objects: tuple[SharedObject, ...]
    exports: Mapping[str, frozenset[Export]]
    """Exported symbols of every library that some need or symbol family names, by path."""
    damaged: Mapping[str, str]
    """ELF files and archives that could not be read, with the reason."""
    num_remembered: int
    """How many of ``digests`` come from the fact cache."""
    digests: Mapping[str, str]
    """For hashed files the digest in RECORD's spelling, or ``!reason`` when reading failed; by path."""
    owners: Mapping[str, str]
    """Distribution name by path, the first owner in order of name."""
    kind: Kind = "environment"
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of a process in it: an image's ``Env``, else what the activation contract sets."""
    texts: Mapping[str, bytes] = field(default_factory=dict)
    """Content of the small files that rules read (see ``orbit.audit.files.texts``), by path."""
    image: ImageFacts | None = None
    origins: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of an image's files with device code: (number of the layer, number of the member in its archive)."""
    elsewhere: Mapping[str, bool] = field(default_factory=dict)
    """For absolute paths outside of the target that editable installs and .pth files name: whether they are there."""
    derived: dict[str, object] = field(default_factory=dict, compare=False, repr=False)
    """What was computed of these facts and is asked for by several rules, by name of the computation."""

    def in_site(self, path: str) -> str:
        """``path`` relative to its site-packages folder when it lies in one, else unchanged: the way people know it."""
        for site in self.layout.sites:
            if site and path.startswith(f"{site}/"):
                return path[len(site) + 1 :]
        return path


def printable(text: str) -> str:
    """``text`` with file name bytes that are not UTF-8 written as ``\\udcff``: what can stand in a report."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def join(*parts: str) -> str:
    """Join relative paths, ignoring empty ones."""
    return "/".join(part for part in parts if part)
