"""What an environment archive says of itself before its files: a manifest, and one line for every path.

An archive is a tar stream in one zstd frame. Its first two members are :data:`MANIFEST` and :data:`LIST`; then comes
every path of the list, in the list's order, with the header that :func:`orbit.image.tar.header` gives. So whoever reads
the list knows every byte of the stream but the contents of the files, and the list has their sha256: a reader believes
no header, it compares it. Plain ``tar`` unpacks an archive, too (without any of these checks).
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from orbit.core.records import Record, content_key, indented_json
from orbit.env.record import RECORD_PATH
from orbit.errors import InputError
from orbit.image.tar import Member, content

SCHEMA = "orbit.env-archive/1"
MANIFEST = "share/orbit/archive.json"
LIST = "share/orbit/archive.tsv"
MANIFEST_MAX_BYTES = 1 << 20
LIST_MAX_BYTES = 256 << 20
"""The list of the cu130 environment (127,000 paths) has 19 MB."""
LINKS_MAX = 40
"""So many links are followed in one path; the kernel gives up at the same number (ELOOP)."""
BLOCK_BYTES = 4096
MODES = {0o40755: "dir", 0o100644: "file", 0o100755: "file", 0o120777: "symlink"}
"""Kind and mode of everything that may be in an environment, as ``st_mode`` has them."""
DIGEST = re.compile(r"[A-Za-z0-9_-]{43}")
SIZE = re.compile(r"0|[1-9][0-9]{0,15}")
NOT_OURS = "get the archive again from who made it; `orbit env archive` makes no such file"


class Editable(Record, frozen=True, kw_only=True):
    """A checkout that was installed in development mode where the archive was made; none of its files is inside."""

    name: str
    version: str


class Manifest(Record, frozen=True, kw_only=True):
    """What is in an archive. Equal environments have equal manifests: no time, no machine, no path of one."""

    schema: str = SCHEMA
    environment: str
    """Identity of the environment (see :class:`orbit.env.record.EnvironmentRecord`)."""
    profile: str
    lock: str
    """sha256 of uv.lock."""
    prefix: str
    """Where the environment lies in the image; compiled files name their sources below it."""
    python: str
    interpreter: str
    orbit: str
    """Key of Orbit's own files (as in an image's label ``org.opencontainers.image.revision``); empty without them."""
    platform: str
    """``linux-x86_64``."""
    glibc: str
    """The oldest C library that every binary inside starts with, ``2.34``; empty when none asks for one."""
    system_libraries: tuple[str, ...]
    """Sonames the interpreter needs from the machine."""
    editables: tuple[Editable, ...] = ()
    files: int
    folders: int
    links: int
    bytes: int
    """Of all files."""
    list_bytes: int
    list_sha256: str
    """Of :data:`LIST`, hex; the list has the sha256 of every file."""
    key: str = ""
    """Content key of everything above: what the whole archive holds, in one word."""


def keyed(manifest: Manifest) -> Manifest:
    """``manifest`` with the key that belongs to it."""
    bare = msgspec.structs.replace(manifest, key="")
    return msgspec.structs.replace(bare, key=content_key(bare))


@dataclass(frozen=True, slots=True)
class Line:
    """One path of the list."""

    path: str
    """Relative to the prefix."""
    mode: int
    """Kind and permissions, a key of :data:`MODES`."""
    size: int
    """Bytes of a file; else 0."""
    what: str
    """sha256 of a file as RECORD spells it; target of a link; empty for a folder."""

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.mode)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.mode)

    def member(self) -> Member:
        """The member that stands for it in the stream, without its content."""
        if self.is_folder:
            return Member(self.path, "dir", 0o755)
        if not self.is_file:
            return Member(self.path, "symlink", 0o777, target=self.what)
        return Member(self.path, "file", self.mode & 0o777, size=self.size)


def order(path: str) -> list[str]:
    """Sort key of the list: by components, so that a folder comes right before what is in it."""
    return path.split("/")


def render_list(lines: Iterable[Line]) -> bytes:
    """``path TAB mode TAB size TAB sha256-or-target`` for each path."""
    return "".join(f"{line.path}\t{line.mode:o}\t{line.size}\t{line.what}\n" for line in lines).encode()


def counts(lines: Iterable[Line]) -> dict[str, int]:
    """``files``, ``folders``, ``links`` and ``bytes``, as the manifest has them."""
    found = {"files": 0, "folders": 0, "links": 0, "bytes": 0}
    for line in lines:
        found["folders" if line.is_folder else "files" if line.is_file else "links"] += 1
        found["bytes"] += line.size
    return found


def disk_bytes(lines: Iterable[Line]) -> int:
    """Room the tree takes on a disk with blocks of :data:`BLOCK_BYTES`, about."""
    return sum(-(-line.size // BLOCK_BYTES) * BLOCK_BYTES if line.is_file else BLOCK_BYTES for line in lines)


def render_manifest(manifest: Manifest) -> bytes:
    """The bytes of :data:`MANIFEST`."""
    return indented_json(manifest)


def heads(manifest: Manifest, listed: bytes) -> tuple[Member, Member]:
    """The first two members of an archive."""
    return content(MANIFEST, render_manifest(manifest)), content(LIST, listed)


def parse_manifest(data: bytes, where: str) -> Manifest:
    """The manifest in ``data``. Raises :class:`InputError` for anything else, and for another schema."""
    try:
        found = msgspec.json.decode(data)
        schema = found.get("schema") if isinstance(found, dict) else None
        if schema != SCHEMA:
            raise InputError(f"{where}: schema {schema!r}", fix=f"this version of orbit reads {SCHEMA}")
        manifest = msgspec.convert(found, Manifest)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"{where}: its manifest cannot be read: {error}", fix=NOT_OURS) from None
    if keyed(manifest) != manifest or render_manifest(manifest) != data:
        raise InputError(f"{where}: its manifest is not as it was written (damaged)", fix=NOT_OURS)
    return manifest


def parse_list(data: bytes, manifest: Manifest, where: str) -> tuple[Line, ...]:
    """The lines of an archive's list, every one safe to write below an empty folder.

    Refused with :class:`InputError`: a list that is not the one the manifest names, paths that are absolute, climb,
    stand twice or out of order or below something that is no folder, other kinds and modes than :data:`MODES` (devices,
    pipes, set-user-id), links that lead out or to nothing, sizes that do not add up.
    """
    if len(data) != manifest.list_bytes or hashlib.sha256(data).hexdigest() != manifest.list_sha256:
        raise InputError(f"{where}: {LIST} is not the one its manifest names (damaged)", fix=NOT_OURS)
    try:
        rows = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: {LIST}: {error}", fix=NOT_OURS) from None
    if rows.pop() != "":
        raise InputError(f"{where}: {LIST} has no end", fix=NOT_OURS)
    lines = tuple(_line(row, number, where) for number, row in enumerate(rows, start=1))
    fault = tree_fault(lines) or _sum_fault(lines, manifest)
    if not fault and render_list(lines) != data:
        fault = f"{LIST} is not in its plain form"
    if fault:
        raise InputError(f"{where}: {fault}", fix=NOT_OURS)
    return lines


def _line(row: str, number: int, where: str) -> Line:
    fields = row.split("\t")
    fault = "" if len(fields) == 4 else "not four fields"
    if not fault:
        path, mode, size, what = fields
        kind = MODES.get(int(mode, 8)) if re.fullmatch("[0-7]{1,7}", mode) else None
        if kind is None:
            fault = f"{path!r} has kind and mode {mode!r}, which nothing in an environment has"
        elif path_fault(path):
            fault = f"{path!r} {path_fault(path)}"
        elif not SIZE.fullmatch(size) or (kind != "file" and size != "0"):
            fault = f"{path!r} has size {size!r}"
        elif (kind == "file") != bool(DIGEST.fullmatch(what)) and kind != "symlink":
            fault = f"{path!r} has no sha256 or one too many"
        elif kind == "symlink" and (not what or what.startswith("/") or "\0" in what):
            fault = f"{path!r} links to {what!r}, out of the environment"
        else:
            return Line(path, int(mode, 8), int(size), what)
    raise InputError(f"{where}: {LIST}, line {number}: {fault}", fix=NOT_OURS)


def path_fault(path: str) -> str:
    """Why ``path`` cannot be the name of something in an environment; empty when it can."""
    if path.startswith("/") or not path:
        return "is not relative to the environment"
    parts = path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return "leads out of the environment or is not in its plain form"
    if "\0" in path or "\r" in path or any(len(part.encode()) > 255 for part in parts) or len(path.encode()) > 3000:
        return "is no name a file system takes"
    return "is reserved for what the archive says of itself" if path in (MANIFEST, LIST) else ""


def tree_fault(lines: Sequence[Line]) -> str:
    """What is wrong with the paths taken together; empty when they are one tree whose links all lead inside."""
    kinds: dict[str, Line] = {}
    before: list[str] = []
    for line in lines:
        key = order(line.path)
        if key <= before:
            return f"{line.path!r} stands twice or out of order"
        before = key
        parent = line.path.rpartition("/")[0]
        if parent and not (parent in kinds and kinds[parent].is_folder):
            return f"{line.path!r} lies below {parent!r}, which is no folder"
        kinds[line.path] = line
    for line in lines:
        if MODES[line.mode] == "symlink" and resolve(line.path, kinds) is None:
            return f"{line.path!r} links to {line.what!r}, out of the environment or to nothing"
    if RECORD_PATH not in kinds or not kinds[RECORD_PATH].is_file:
        return f"{RECORD_PATH} is missing: not an environment"
    return ""


def resolve(path: str, lines: Mapping[str, Line]) -> str | None:
    """Where ``path`` leads when every link is followed as the kernel does; None when out of the tree or to nothing."""
    todo = path.split("/")[::-1]
    here: list[str] = []
    budget = LINKS_MAX
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                return None
            here.pop()
            continue
        line = lines.get("/".join([*here, part]))
        if line is None or (todo and line.is_file):
            return None
        if line.is_file or line.is_folder:
            here.append(part)
            continue
        budget -= 1
        if budget < 0 or line.what.startswith("/"):
            return None
        todo.extend(line.what.split("/")[::-1])
    return "/".join(here)


def _sum_fault(lines: Sequence[Line], manifest: Manifest) -> str:
    for name, number in counts(lines).items():
        if getattr(manifest, name) != number:
            return f"the manifest says {getattr(manifest, name)} {name}, its list has {number}"
    return ""
