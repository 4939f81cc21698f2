"""Archives inside an image, compared member by member: tar, ar (static libraries) and gzip.

Formats: POSIX.1-2001 for tar, ar(5) with GNU's long names (``/123`` into a member called ``//``), RFC 1952 for gzip.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from orbit.audit.facts import printable
from orbit.audit.images.tar_stream import TarStream
from orbit.audit.reports.diff import Change
from orbit.core.files import CHUNK_BYTES
from orbit.errors import InputError

AR_MAGIC = b"!<arch>\n"
AR_HEADER, AR_END = 60, b"`\n"
GZIP_MAGIC = b"\x1f\x8b"
GZIP_HEAD_BYTES = 4096
NAME_FLAG, EXTRA_FLAG = 8, 4
MAX_UNPACKED_BYTES = 1 << 30
MAX_MEMBERS = 200_000


class Item(NamedTuple):
    """One member of an archive that is not compressed."""

    name: str
    mode: int
    owner: tuple[int, int]
    time: int
    offset: int
    """Of its content in the file."""
    size: int
    target: str = ""


class NotAnArchive(InputError):
    """The file is not what its first bytes say."""

    def __init__(self, what: str) -> None:
        super().__init__(what, fix="it is compared as bytes")


def tar_items(path: Path) -> tuple[Item, ...]:
    """The members of a tar file. Raises :class:`NotAnArchive`."""
    found = []
    try:
        for member in TarStream(_chunks(path), path.name):
            size = member.size if stat.S_ISREG(member.mode) else 0
            owner = (member.uid, member.gid)
            found.append(Item(member.path, member.mode, owner, member.mtime, member.offset, size, member.target))
    except InputError as error:
        raise NotAnArchive(error.what) from None
    return tuple(found)


def ar_items(path: Path) -> tuple[Item, ...]:
    """The members of an ar file. Raises :class:`NotAnArchive`."""
    found: list[Item] = []
    names = b""
    end = path.stat().st_size
    with open(path, "rb") as file:
        at = len(AR_MAGIC)
        while at + AR_HEADER <= end:
            file.seek(at)
            header = file.read(AR_HEADER)
            fields = [header[start:stop].strip() for start, stop in ((0, 16), (16, 28), (28, 34), (34, 40), (40, 48))]
            digits = header[48:58].strip()
            if header[58:] != AR_END or not digits.isdigit() or len(found) > MAX_MEMBERS:
                raise NotAnArchive(f"{path.name}: no member header at byte {at}")
            size = int(digits)
            offset = at + AR_HEADER
            if offset + size > end:
                raise NotAnArchive(f"{path.name}: a member runs past its end")
            if fields[0] == b"//":
                names = file.read(size)
            else:
                time, uid, gid, mode = (
                    _number(field, 8 if place == 3 else 10) for place, field in enumerate(fields[1:])
                )
                found.append(Item(_ar_name(fields[0], names), mode, (uid, gid), time, offset, size))
            at = offset + size + size % 2
    return tuple(found)


def _number(field: bytes, base: int) -> int:
    try:
        return int(field or b"0", base)
    except ValueError:
        return -1


def _ar_name(field: bytes, names: bytes) -> str:
    if field[:1] == b"/" and field[1:].isdigit():
        field = names[int(field[1:]) :].partition(b"\n")[0]
    name = field if field in (b"/", b"/SYM64/") else field.rstrip(b"/")
    return name.decode("utf-8", "surrogateescape")


class Compared(NamedTuple):
    """Two archives."""

    causes: tuple[str, ...]
    """Those that lie in the archive and not in its members."""
    changed: tuple[tuple[Item, Item], ...]
    """Members of one name with other bytes."""
    alone: tuple[tuple[Item | None, Item | None], ...]
    """Members that only one has."""


def compare_items(left: Path, right: Path, ones: tuple[Item, ...], twos: tuple[Item, ...]) -> Compared:
    """What differs between two archives of these members. Of members with one name the first belong together."""
    one, two = _numbered(ones), _numbered(twos)
    common = [key for key in one if key in two]
    causes = []
    if common != [key for key in two if key in one]:
        causes.append("member-order")
    for cause, differs in DIFFERS.items():
        if any(differs(one[key], two[key]) for key in common):
            causes.append(cause)
    with open(left, "rb") as first, open(right, "rb") as second:
        changed = tuple(
            (one[key], two[key])
            for key in common
            if one[key].size != two[key].size or _digest(first.fileno(), one[key]) != _digest(second.fileno(), two[key])
        )
    alone: list[tuple[Item | None, Item | None]] = [(one[key], None) for key in one if key not in two]
    alone += [(None, two[key]) for key in two if key not in one]
    return Compared(tuple(causes), changed, tuple(alone))


DIFFERS: dict[str, Callable[[Item, Item], bool]] = {
    "member-date": lambda one, two: one.time != two.time,
    "member-mode": lambda one, two: (one.mode, one.target) != (two.mode, two.target),
    "member-owner": lambda one, two: one.owner != two.owner,
}


def _numbered(items: tuple[Item, ...]) -> dict[tuple[str, int], Item]:
    counts: Counter[str] = Counter()
    found = {}
    for item in items:
        found[item.name, counts[item.name]] = item
        counts[item.name] += 1
    return found


def _digest(handle: int, item: Item) -> bytes:
    state = hashlib.sha256()
    at, end = item.offset, item.offset + item.size
    while at < end and (piece := os.pread(handle, min(CHUNK_BYTES, end - at), at)):
        state.update(piece)
        at += len(piece)
    return state.digest()


def extract(archive: Path, item: Item, target: Path) -> None:
    """Write the content of a member to a file of its own."""
    with open(archive, "rb") as source, open(target, "wb") as file:
        source.seek(item.offset)
        left = item.size
        while left and (piece := source.read(min(CHUNK_BYTES, left))):
            file.write(piece)
            left -= len(piece)


def gunzip(path: Path, target: Path) -> None:
    """Unpack a gzip file. Raises :class:`NotAnArchive`, also when it unpacks to more than is reasonable."""
    unpack = zlib.decompressobj(31)
    total = 0
    try:
        with open(target, "wb") as file:
            for piece in _chunks(path):
                data = piece
                while data:
                    if unpack.eof:
                        unpack = zlib.decompressobj(31)
                    out = unpack.decompress(data, CHUNK_BYTES)
                    total += len(out)
                    file.write(out)
                    data = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
                    if total > MAX_UNPACKED_BYTES:
                        raise NotAnArchive(f"{path.name}: unpacks to more than {MAX_UNPACKED_BYTES} bytes")
    except zlib.error as error:
        raise NotAnArchive(f"{path.name}: {error}") from None
    if not unpack.eof:
        raise NotAnArchive(f"{path.name}: ends too early")


def gzip_fields(left: Path, right: Path) -> tuple[Change, ...]:
    """Fields of the headers of two gzip files that differ: time, name, system, level."""
    one, two = dict(_gzip_head(left)), dict(_gzip_head(right))
    return tuple(
        Change(name=name, before=one.get(name, ""), after=two.get(name, ""))
        for name in dict.fromkeys((*one, *two))
        if one.get(name) != two.get(name)
    )


def _gzip_head(path: Path) -> Iterator[tuple[str, str]]:
    with open(path, "rb") as file:
        head = file.read(GZIP_HEAD_BYTES)
    if len(head) < 10:
        return
    yield "time", str(int.from_bytes(head[4:8], "little"))
    yield "level", str(head[8])
    yield "system", str(head[9])
    at = 10
    if head[3] & EXTRA_FLAG:
        at += 2 + int.from_bytes(head[at : at + 2], "little")
    if head[3] & NAME_FLAG:
        yield "name", printable(head[at:].partition(b"\0")[0].decode("utf-8", "surrogateescape"))


def _chunks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece
