"""A tar stream whose bytes depend on names, kinds, modes and contents alone.

Times are one constant, owners are 0:0, extended headers appear only where a name or a size does not fit, and nothing
comes from the file system's order. The format is POSIX.1-2001 (ustar with pax records), which every container engine
reads; it is written here, not by :mod:`tarfile`, so that another patch release of Python cannot change a digest.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orbit.core.digests import record_digest
from orbit.errors import RefusedError

EPOCH_S = 315532800
"""Modification time of everything in an image: 1980-01-01, the earliest time a zip archive can hold."""

BLOCK = 512
RECORD = 20 * BLOCK
CHUNK_BYTES = 1 << 20
ZEROS = bytes(CHUNK_BYTES)
"""What a hole reads as."""
GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ESTALE, errno.ENXIO})
"""How reading a path fails when it is no longer the file that was listed."""
USTAR_MAX_SIZE = 8**11 - 1

Kind = Literal["file", "dir", "symlink", "hardlink"]
# Fields of a header that are the same in all of them: owner and group 0, the time, the magic with no names of owners.
OWNERS = b"0000000\0" * 2
TIME = b"%011o\0" % EPOCH_S
MAGIC = b"ustar\x0000" + bytes(64) + b"0000000\0" * 2
CONSTANT_SUM = sum(OWNERS + TIME + MAGIC + b" " * 8)
TYPE_FLAG: dict[Kind, bytes] = {"file": b"0", "hardlink": b"1", "symlink": b"2", "dir": b"5"}


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes in the middle of a file (a member of another tar), read when they are needed."""

    path: Path
    offset: int


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of a layer. ``name`` is relative to the image's root, without a leading or trailing slash."""

    name: str
    kind: Kind
    mode: int
    size: int = 0
    """Bytes of content; 0 unless ``kind`` is ``file``."""
    target: str = ""
    """Where a symbolic or hard link points."""
    source: Path | Slice | bytes = b""
    """The content of a file: bytes, or the file to read them from."""
    stamp: tuple[int, ...] = ()
    """Device, inode, modification and change time (ns) of ``source`` when it was listed; compared after it was read.
    Empty: not compared."""
    sha256: str = ""
    """Of the content, as RECORD spells it (urlsafe base64 without padding); empty when it is not known."""
    proved: bool = False
    """``sha256`` was computed from the file that ``stamp`` describes; otherwise it is compared while that is read."""


def folder(name: str) -> Member:
    """A folder anyone may enter."""
    return Member(name, "dir", 0o755)


def content(name: str, data: bytes, *, executable: bool = False) -> Member:
    """A file whose bytes are at hand."""
    return Member(name, "file", 0o755 if executable else 0o644, size=len(data), source=data)


def with_parents(members: Iterable[Member]) -> tuple[Member, ...]:
    """Members in the order of the stream: sorted by path, hard links last, every parent folder present, each name once.

    Of two members with one name the later wins, so a caller lists the general before the special.
    """
    by_name: dict[str, Member] = {}
    for member in members:
        by_name[member.name] = member
    for name in list(by_name):
        parent = name.rpartition("/")[0]
        while parent and parent not in by_name:
            by_name[parent] = folder(parent)
            parent = parent.rpartition("/")[0]
    return tuple(sorted(by_name.values(), key=lambda member: (member.kind == "hardlink", member.name.split("/"))))


def tar_chunks(members: Iterable[Member], *, told: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """The tar stream in pieces of about :data:`CHUNK_BYTES`; ``told`` gets the bytes of content as they go by.

    Members must come in their final order (:func:`with_parents`). Raises :class:`RefusedError` when a file is no
    longer what it was when it was listed: an image of a tree that changes under the writer would be a lie.
    """
    waiting: list[bytes] = []
    size = total = 0
    for member in members:
        waiting.append(header(member))
        size += len(waiting[-1])
        for piece in _content(member):
            if told:
                told(len(piece))
            waiting.append(piece)
            size += len(piece)
            if size >= CHUNK_BYTES:
                total += size
                yield from _large(waiting)
                waiting, size = [], 0
        if member.size % BLOCK:
            waiting.append(bytes(-member.size % BLOCK))
            size += len(waiting[-1])
    waiting.append(bytes(2 * BLOCK + -(total + size + 2 * BLOCK) % RECORD))
    yield b"".join(waiting)


def _large(pieces: list[bytes]) -> Iterator[bytes]:
    """The same bytes: small pieces joined, the full-sized last one (most of a large file) passed on uncopied."""
    if len(pieces) > 1:
        yield b"".join(pieces[:-1])
    yield pieces[-1]


def _content(member: Member) -> Iterator[bytes]:
    if member.kind != "file":
        return
    if isinstance(member.source, bytes):
        yield member.source
        return
    path = member.source if isinstance(member.source, Path) else member.source.path
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if isinstance(member.source, Slice):
                os.lseek(handle, member.source.offset, os.SEEK_SET)
                yield from _exactly(handle, member.size, path)
            else:
                yield from _whole(handle, member, path)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in GONE:
            raise
        raise _changed(path, f"{error.strerror} where a file was listed") from None


def _whole(handle: int, member: Member, path: Path) -> Iterator[bytes]:
    """All of an open file, if it is still what was listed."""
    digest = hashlib.sha256() if member.sha256 and not member.proved else None
    for piece in _exactly(handle, member.size, path) if member.size <= CHUNK_BYTES else _extents(handle, member, path):
        if digest is not None:
            digest.update(piece)
        yield piece
    state = os.fstat(handle)
    if state.st_size != member.size:
        raise _changed(path, f"{state.st_size} bytes now, {member.size} when it was listed")
    if member.stamp and (state.st_dev, state.st_ino, state.st_mtime_ns, state.st_ctime_ns) != member.stamp:
        raise _changed(path, "written to or replaced since it was listed")
    if digest is not None and record_digest(digest.digest()) != member.sha256:
        raise RefusedError(
            f"{path}: its content is not what RECORD or contents.tsv states, or it changed while it was read",
            fix="stop whatever writes to that tree; if it was edited, create the environment again",
        )


def _extents(handle: int, member: Member, path: Path) -> Iterator[bytes]:
    """The content of a large file; what the disk does not hold (holes) is not read."""
    if os.fstat(handle).st_blocks * 512 >= member.size:
        yield from _exactly(handle, member.size, path)
        return
    at = 0
    while at < member.size:
        try:
            data = min(os.lseek(handle, at, os.SEEK_DATA), member.size)
        except OSError as error:
            if error.errno != errno.ENXIO:  # no data behind `at`: a hole up to the end
                raise
            data = member.size
        for start in range(at, data, CHUNK_BYTES):
            yield ZEROS if data - start >= CHUNK_BYTES else ZEROS[: data - start]
        if data < member.size:
            hole = min(os.lseek(handle, data, os.SEEK_HOLE), member.size)
            os.lseek(handle, data, os.SEEK_SET)
            yield from _exactly(handle, hole - data, path)
            data = hole
        at = data


def _exactly(handle: int, size: int, path: Path) -> Iterator[bytes]:
    """The next ``size`` bytes of an open file."""
    while size:
        piece = os.read(handle, min(CHUNK_BYTES, size))
        if not piece:
            raise _changed(path, f"{size} bytes shorter than when it was listed")
        size -= len(piece)
        yield piece


def _changed(path: Path, how: str) -> RefusedError:
    return RefusedError(
        f"{path}: changed while it was read into the image ({how})",
        fix="stop whatever writes to that tree and run the same command again",
    )


def header(member: Member) -> bytes:
    """The header blocks of one member: a ustar block, with a pax block before it when something does not fit."""
    name = member.name + ("/" if member.kind == "dir" else "")
    pax: list[tuple[str, str]] = []
    prefix, short = _split(name)
    if not short:
        pax.append(("path", name))
        short = name.encode()[-100:]
    link = member.target.encode()
    if len(link) > 100 or not link.isascii():
        pax.append(("linkpath", member.target))
        link = link[-100:]
    size = member.size
    if size > USTAR_MAX_SIZE:
        pax.append(("size", str(size)))
        size = 0
    block = _ustar(short, prefix=prefix, mode=member.mode, size=size, flag=TYPE_FLAG[member.kind], link=link)
    if not pax:
        return block
    body = b"".join(_pax_record(key, value) for key, value in sorted(pax))
    head = _ustar(b"pax_header", prefix=b"", mode=0o644, size=len(body), flag=b"x", link=b"")
    return head + body + bytes(-len(body) % BLOCK) + block


def _split(name: str) -> tuple[bytes, bytes]:
    """``name`` as ustar's prefix (155 bytes) and name (100 bytes); an empty name when it does not fit."""
    raw = name.encode()
    if not raw.isascii():
        return b"", b""
    if len(raw) <= 100:
        return b"", raw
    cut = raw.rfind(b"/", 0, 156)
    if cut <= 0 or len(raw) - cut - 1 > 100 or cut == len(raw) - 1:
        return b"", b""
    return raw[:cut], raw[cut + 1 :]


def _pax_record(key: str, value: str) -> bytes:
    """``LENGTH key=value\\n`` where LENGTH counts itself (POSIX.1-2001, pax Extended Header)."""
    rest = f" {key}={value}\n".encode()
    length = len(rest)
    while length != len(str(length)) + len(rest):
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


def _ustar(name: bytes, *, prefix: bytes, mode: int, size: int, flag: bytes, link: bytes) -> bytes:
    """One 512-byte ustar block (POSIX.1-1988): octal numbers, checksum over the block with blanks in its field."""
    numbers = b"%07o\0" % mode, b"%011o\0" % size
    checksum = CONSTANT_SUM + sum(map(sum, (name, *numbers, flag, link, prefix)))
    return b"".join(
        (
            name.ljust(100, b"\0"),
            numbers[0],
            OWNERS,
            numbers[1],
            TIME,
            b"%06o\0 " % checksum,
            flag,
            link.ljust(100, b"\0"),
            MAGIC,
            prefix.ljust(155, b"\0"),
            bytes(12),
        )
    )
