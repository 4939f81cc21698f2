"""A git tree, read and written by us: every object verified from the tree's hash down, nothing interpreted.

Attributes, filters, line endings, ``export-subst`` and large-file pointers mean nothing here: a file is the bytes of
its blob. (``git archive`` and ``git checkout`` would interpret them, and can start programs for it.)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from orbit.errors import InputError
from orbit.kernels.sources.git import object_sizes, read_objects

MAX_FILES = 300_000
MAX_BYTES = 8 << 30
MAX_DEPTH = 100
FIX = "this is no source to build from; look at the repository and at who made it"
FILES = {"100644": False, "100664": False, "100755": True}
"""Modes of regular files and whether they are executable; 100664 is from before 2005 and still around."""


@dataclass(frozen=True, slots=True)
class File:
    """A regular file or symbolic link of a tree."""

    path: str
    blob: str
    executable: bool = False
    link: bool = False


@dataclass(frozen=True, slots=True)
class Tree:
    """All of a tree."""

    files: tuple[File, ...]
    submodules: dict[str, str]
    """Path to commit of each submodule (gitlink)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a tree object."""

    mode: str
    name: str
    oid: str


def commit_tree(repository: Path, commit: str) -> str:
    """Name of the commit's tree, read from the verified commit object."""
    ((_, data),) = read_objects(repository, object_sizes(repository, [commit]), "commit")
    word, _, name = data.partition(b"\n")[0].partition(b" ")
    if word != b"tree" or len(name) != 40:
        raise InputError(f"{repository}: commit {commit} does not begin with its tree", fix=FIX)
    return name.decode()


def parse_rows(data: bytes, where: str) -> tuple[Row, ...]:
    """The rows of a tree object. Raises :class:`InputError` for bad shape and for names that are not plain names."""
    rows = []
    names = set()
    at = 0
    while at < len(data):
        blank, end = data.find(b" ", at), data.find(b"\0", at)
        if not at < blank < end or end + 21 > len(data):
            raise InputError(f"{where}: not a git tree", fix=FIX)
        mode, name = data[at:blank].decode("ascii", "replace"), os.fsdecode(data[blank + 1 : end])
        if not is_plain(name):
            raise InputError(f"{where}: a file named {name!r}", fix=FIX)
        if name in names:
            raise InputError(f"{where}: two files named {name!r}", fix=FIX)
        names.add(name)
        rows.append(Row(mode.zfill(6), name, data[end + 1 : end + 21].hex()))
        at = end + 21
    return tuple(rows)


def is_plain(name: str) -> bool:
    """Whether one part of a path names a file in its folder, and nothing that git itself would read."""
    plain = name not in ("", ".", "..") and "/" not in name and len(os.fsencode(name)) <= 255
    return plain and name.lower() != ".git" and all(ord(sign) >= 32 for sign in name)


def read_tree(repository: Path, tree: str) -> Tree:
    """Everything below ``tree``. Raises :class:`InputError` for what is missing, hostile or without end."""
    files: list[File] = []
    submodules: dict[str, str] = {}
    level = [("", tree)]
    depth = 0
    while level:
        depth += 1
        data = dict(read_objects(repository, object_sizes(repository, list({oid: 0 for _, oid in level})), "tree"))
        parsed = {oid: parse_rows(content, f"{repository}: tree {oid}") for oid, content in data.items()}
        deeper: list[tuple[str, str]] = []
        for folder, oid in level:
            for row in parsed[oid]:
                path = f"{folder}{row.name}"
                if row.mode == "040000":
                    deeper.append((f"{path}/", row.oid))
                elif row.mode == "160000":
                    submodules[path] = row.oid
                elif row.mode == "120000" or row.mode in FILES:
                    files.append(File(path, row.oid, FILES.get(row.mode, False), row.mode == "120000"))
                else:
                    raise InputError(f"{repository}: {path} has mode {row.mode}", fix=FIX)
            if len(files) + len(deeper) > MAX_FILES or depth > MAX_DEPTH:
                raise InputError(f"{repository}: more than {MAX_FILES} files, or {MAX_DEPTH} folders deep", fix=FIX)
        level = deeper
    return Tree(files=tuple(files), submodules=submodules)


def write_tree(repository: Path, tree: Tree, folder: Path) -> None:
    """Write the files into ``folder`` (made, empty until now), links last, submodules as empty folders."""
    sizes = object_sizes(repository, list({file.blob: 0 for file in tree.files}))
    total = sum(sizes[file.blob].size for file in tree.files)
    if total > MAX_BYTES:
        raise InputError(f"{repository}: {total} bytes of files", fix=FIX)
    folder.mkdir(parents=True, exist_ok=True)
    for path in {os.path.dirname(file.path) for file in tree.files} | set(tree.submodules):
        (folder / path).mkdir(parents=True, exist_ok=True)
    users: dict[str, list[File]] = {}
    for file in tree.files:
        users.setdefault(file.blob, []).append(file)
    links: list[tuple[Path, bytes]] = []
    for blob, data in read_objects(repository, sizes, "blob"):
        for file in users[blob]:
            target = folder / file.path
            if file.link:
                links.append((target, data))
                continue
            with open(target, "xb") as out:
                out.write(data)
            target.chmod(0o755 if file.executable else 0o644)
    for target, data in links:
        if not data or b"\0" in data or len(data) > 4095:
            raise InputError(f"{repository}: {target.name} is a link to nothing sensible", fix=FIX)
        os.symlink(os.fsdecode(data), target)
