"""Opening a bundle: a folder, or a tar file of one, as bytes by path. Strict, and nothing is ever written.

Whatever is in the place of a file and is none (a link, a pipe, a name that leads out) is told as a problem, never
followed. Everything is read once: what is judged afterwards are the very bytes that were hashed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from orbit.audit.images.tar_stream import TarError, TarStream
from orbit.core.files import CHUNK_BYTES, open_regular, read_file
from orbit.errors import InputError
from orbit.release.bundle.model import INDEX, MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, MAX_PATH, PATH, RELEASE, SUMS

MARKS = (INDEX, RELEASE, SUMS)
"""What makes a bundle: with two of these three it is one, whole or not."""
MAX_DEPTH = 4
PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd", b"\xfd7": "xz", b"BZ": "bzip2", b"PK": "zip"}
NOT_ONE = "give the folder or the .tar file that `orbit gate run` wrote"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a bundle that is no file of one."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Contents:
    """A bundle as it was found."""

    place: Path
    files: MappingProxyType[str, bytes]
    """Content by path."""
    problems: tuple[Problem, ...]


def read_contents(place: Path) -> Contents:
    """Everything in the bundle at ``place``, a folder or a tar file.

    Raises :class:`InputError` for what is no bundle at all, and for one larger than any honest one. What is missing in
    a bundle, or too much, is for :mod:`orbit.release.bundle.verify` to say.
    """
    try:
        if place.is_dir():
            found = _Found(place)
            _walk(place, "", found, 0)
        elif os.path.lexists(place):
            found = _unpack(place)
        else:
            raise InputError(f"{place}: no such file or folder", fix=NOT_ONE)
    except OSError as error:
        raise InputError(f"{place}: {error.strerror or error}", fix=NOT_ONE) from None
    if sum(mark in found.files for mark in MARKS) < 2:
        lacking = [mark for mark in MARKS if mark not in found.files]
        raise InputError(f"{place}: not a release bundle: no {' and no '.join(lacking)} in it", fix=NOT_ONE)
    return Contents(place, MappingProxyType(found.files), tuple(found.problems))


class _Found:
    """What was read so far, within the limits."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.files: dict[str, bytes] = {}
        self.problems: list[Problem] = []
        self._entries = 0
        self._bytes = 0

    def entry(self, path: str) -> bool:
        """One more name; False when it cannot be one of a bundle (which is told)."""
        self._entries += 1
        if self._entries > MAX_FILES:
            raise InputError(f"{self.place}: more than {MAX_FILES} files", fix=NOT_ONE)
        if len(path) > MAX_PATH or not PATH.fullmatch(path):
            self.problem(path, "has a name that no file of a bundle has")
            return False
        return True

    def room(self, path: str, size: int) -> None:
        """``size`` bytes more; raises :class:`InputError` when that is too much."""
        self._bytes += size
        if size > MAX_FILE_BYTES or self._bytes > MAX_BYTES:
            raise InputError(
                f"{self.place}: {_printable(path)}: too large: a bundle has at most {MAX_FILE_BYTES >> 20} MiB in a "
                f"file and {MAX_BYTES >> 20} MiB in all",
                fix=NOT_ONE,
            )

    def problem(self, path: str, why: str) -> None:
        """Tell it."""
        self.problems.append(Problem(_printable(path), why))


def _walk(folder: Path, above: str, found: _Found, depth: int) -> None:
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        path = f"{above}{entry.name}"
        mode = entry.stat(follow_symlinks=False).st_mode
        if not found.entry(path):
            continue
        if stat.S_ISDIR(mode):
            if depth == MAX_DEPTH:
                found.problem(path, "is a folder deeper than any in a bundle")
            else:
                before = len(found.files) + len(found.problems)
                _walk(Path(entry.path), f"{path}/", found, depth + 1)
                if len(found.files) + len(found.problems) == before:
                    found.problem(path, "is an empty folder")
        elif not stat.S_ISREG(mode):
            found.problem(path, f"is {_kind(mode)}, not a file")
        else:
            found.room(path, entry.stat(follow_symlinks=False).st_size)
            try:
                found.files[path] = read_file(Path(entry.path), MAX_FILE_BYTES)
            except (InputError, OSError) as error:
                why = error.what if isinstance(error, InputError) else error.strerror
                found.problem(path, f"cannot be read: {why}")


def _unpack(place: Path) -> _Found:
    """The members of a tar file, without their common folder."""
    found = _Found(place)
    size = place.stat().st_size
    if size > MAX_BYTES + (MAX_FILES << 11):
        raise InputError(f"{place}: {size >> 20} MiB, larger than any bundle", fix=NOT_ONE)
    stream = TarStream(_pieces(place), str(place))
    try:
        for member in stream:
            if not member.path or (member.mode and stat.S_ISDIR(member.mode)):
                continue
            if not found.entry(member.path):
                continue
            if not stat.S_ISREG(member.mode):
                found.problem(member.path, f"is {_kind(member.mode)}, not a file")
            elif member.path in found.files:
                found.problem(member.path, "stands twice in the archive")
            else:
                found.room(member.path, member.size)
                found.files[member.path] = b"".join(map(bytes, stream.content()))
    except TarError as error:
        raise InputError(error.what, fix="download the bundle again, or unpack it and verify the folder") from None
    found.problems += [Problem(_printable(path), f"in the archive: {why}") for path, why in stream.problems]
    if not stream.ended:
        raise InputError(f"{place}: the archive is cut short", fix="download the bundle again")
    _strip(found)
    return found


def _strip(found: _Found) -> None:
    """Take the folder away that everything is in; nothing when files lie at the top."""
    tops = {path.partition("/")[0] for path in found.files}
    if len(tops) != 1 or not all("/" in path for path in found.files):
        return
    start = f"{tops.pop()}/"
    found.files = {path.removeprefix(start): data for path, data in found.files.items()}


def _pieces(place: Path) -> Iterator[bytes]:
    with open_regular(place) as file:
        first = True
        while piece := file.read(CHUNK_BYTES):
            if first and (codec := PACKED.get(piece[:2])):
                raise InputError(f"{place}: compressed ({codec}), or no bundle", fix=f"decompress it first; {NOT_ONE}")
            first = False
            yield piece


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for check, name in kinds if check(mode)), "a link")


def _printable(path: str) -> str:
    text = path.encode("ascii", "backslashreplace").decode()
    return text if text.isprintable() and len(text) <= 120 else repr(text[:120])
