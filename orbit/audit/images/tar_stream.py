"""A strict reader of tar streams that anybody may have written: headers only, contents go by.

Formats: ustar (POSIX.1-1988), pax (POSIX.1-2001: ``path``, ``linkpath``, ``size``, ``uid``, ``gid``, ``mtime``), GNU
long names and base-256 numbers (GNU tar manual, "Basic Tar Format"). Where writers and readers differ, what container
engines do counts (Go's ``archive/tar``): only regular files have content, a global pax header changes nothing, numbers
are octal or base-256.

Nothing is ever written. A stream that no engine could unpack raises :class:`TarError`; a member that is refused alone
(a path that leads out, a sparse file, an unknown kind) is passed over and told in :attr:`TarStream.problems`. Memory is
bounded: by one header of names (:data:`MAX_HEADER_BYTES`), and :data:`MAX_MEMBERS` in all.
"""

from __future__ import annotations

import re
import stat
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from orbit.errors import InputError

BLOCK = 512
USTAR = struct.Struct("<100s8s8s8s12s12s8sc100s6s2s32s32s8s8s155s12x")
MAX_HEADER_BYTES = 1 << 20
"""Of one extended header. PATH_MAX is 4096; what is much larger carries something else."""
MAX_MEMBERS = 1_500_000
"""Headers of all kinds in one stream; the largest image seen has 300,000 files."""
MAX_PROBLEMS = 1000
MAX_PATH_BYTES = 4095
MAX_NAME_BYTES = 255
SIZE_END = 1 << 62
NUMBERS_MAX = 1 << 16
"""Remembered header fields: most members share their owner and mode."""
PAX_LENGTH = re.compile(rb"([0-9]{1,7}) ")
OCTAL = re.compile(rb"[0-7]{1,7}")
PAX_NUMBER = re.compile(rb"-?[0-9]{1,18}(\.[0-9]*)?")

KINDS = {
    b"0": stat.S_IFREG,
    b"\0": stat.S_IFREG,
    b"7": stat.S_IFREG,
    b"2": stat.S_IFLNK,
    b"3": stat.S_IFCHR,
    b"4": stat.S_IFBLK,
    b"5": stat.S_IFDIR,
    b"6": stat.S_IFIFO,
}
"""Type bits of a mode by type flag; a hard link (``1``) has those of what it links to."""
HARD_LINK = b"1"
PAX, PAX_GLOBAL, LONG_NAME, LONG_LINK = b"x", b"g", b"L", b"K"
SPARSE = b"S"

type Chunk = bytes | memoryview


class TarError(InputError):
    """Not a tar stream that could be unpacked."""

    def __init__(self, what: str) -> None:
        super().__init__(
            what, fix="the archive is damaged: make it again (docker save, skopeo copy, orbit image build)"
        )


class Member(NamedTuple):
    """One member. ``path`` has neither a leading nor a trailing slash; the root is the empty path."""

    path: str
    mode: int
    """Type and permission bits as in ``st_mode``; 0 for a hard link."""
    uid: int
    gid: int
    size: int
    """Bytes of content; 0 unless it is a regular file."""
    mtime: int
    """Seconds."""
    target: str
    """Of a symbolic link as it is written, of a hard link as a path like ``path``."""
    offset: int
    """Of the content in the stream."""


class TarStream:
    """Iterate over it for members; :meth:`content` gives the bytes of the one that came last."""

    def __init__(self, chunks: Iterable[Chunk], label: str) -> None:
        self.problems: list[tuple[str, str]] = []
        """(path, why) of members that were passed over."""
        self.ended = False
        """Whether the end mark was seen. Without it the stream may have been cut short between two members."""
        self._label = label
        self._chunks = iter(chunks)
        self._view = memoryview(b"")
        self._at = 0
        self._before = 0  # bytes of the stream before the view
        self._left = 0  # bytes of the current content not taken yet
        self._padding = 0
        self._numbers: dict[bytes, int] = {}
        self._checksums: dict[bytes, tuple[int, int]] = {}

    def __iter__(self) -> Iterator[Member]:
        pax: dict[str, bytes] = {}
        long: dict[bytes, bytes] = {}
        for _ in range(MAX_MEMBERS):
            block = self._next_block()
            if block is None:
                return
            fields = USTAR.unpack(block)
            flag = fields[7]
            if flag in (PAX, PAX_GLOBAL, LONG_NAME, LONG_LINK):
                text = self._small(self._size(fields[4], None))
                if flag == PAX:
                    pax = self._pax(text)
                elif flag != PAX_GLOBAL:
                    long[flag] = text.partition(b"\0")[0]
                continue
            member = self._member(fields, pax, long)
            if member is not None:
                yield member
            pax, long = {}, {}
        raise TarError(f"{self._label}: more than {MAX_MEMBERS} headers")

    def content(self) -> Iterator[memoryview]:
        """The bytes of the last member, in pieces as they come. Raises :class:`TarError` when they end early."""
        while self._left:
            piece = self._some(self._left)
            self._left -= len(piece)
            yield piece

    def drain(self) -> int:
        """Read the stream to its end: what follows the end mark belongs to its digest. Gives the bytes of all of it."""
        self._left = self._padding = 0
        while self._fill():
            pass
        return self._before

    def whole(self) -> memoryview | None:
        """All bytes of the last member when they are at hand in one piece; None: ask :meth:`content`."""
        end = self._at + self._left
        if end > len(self._view):
            return None
        piece = self._view[self._at : end]
        self._at, self._left = end, 0
        return piece

    def _next_block(self) -> memoryview | None:
        """The next header, checked; None at the end of the archive."""
        rest = self._left + self._padding
        if rest:
            self._left = self._padding = 0
            if self._at + rest <= len(self._view):
                self._at += rest
            else:
                self._skip(rest)
        if self._at >= len(self._view) and not self._fill():
            return None
        block = self._exactly(BLOCK)
        total = zlib.adler32(block) & 0xFFFF  # 1 + the sum of the bytes, modulo 65521
        if total == 1 and not any(block):
            self.ended = True
            return None
        stated, blanks = self._checksum(bytes(block[148:156]))
        if stated < 0 or ((stated - total + 1 + blanks) % 65521 and stated != _signed_sum(block)):
            raise TarError(f"{self._label}: no header where one must be, at byte {self._position() - BLOCK}")
        return block

    def _checksum(self, field: bytes) -> tuple[int, int]:
        """(the checksum in a field, what the field itself adds to the sum beyond the blanks that count)."""
        known = self._checksums.get(field)
        if known is None:
            if len(self._checksums) >= NUMBERS_MAX:
                self._checksums.clear()
            digits = field.strip(b"\0 ")
            stated = int(digits, 8) if OCTAL.fullmatch(digits) else -1
            known = self._checksums[field] = (stated, sum(field) - 8 * 0x20)
        return known

    def _member(self, fields: tuple[bytes, ...], pax: dict[str, bytes], long: dict[bytes, bytes]) -> Member | None:
        flag, size = fields[7], self._size(fields[4], pax.get("size"))
        raw = long.get(LONG_NAME) or pax.get("path") or _name(fields)
        name = raw.decode("utf-8", "surrogateescape")
        kind = KINDS.get(flag, 0)
        if kind == stat.S_IFREG and name.endswith("/") and (flag == b"\0" or not size):
            kind = stat.S_IFDIR
        if flag == SPARSE:
            self._sparse_map(fields[15])
        offset = self._position()
        # a content that is passed over is stepped across all the same: engines know it by its size alone
        if kind == stat.S_IFREG or not (kind or flag == HARD_LINK):
            self._left, self._padding = size, -size % BLOCK
        path = clean(name)
        why = "" if path is not None else "its path leads out of the image or cannot be a path"
        if flag == SPARSE or (pax and any(key.startswith("GNU.sparse.") for key in pax)):
            why = "a sparse member: its content was not read"
        elif not kind and flag != HARD_LINK:
            why = f"a member of unknown kind {flag!r}"
        target = ""
        if flag == HARD_LINK or kind == stat.S_IFLNK:
            link = long.get(LONG_LINK) or pax.get("linkpath") or fields[8].partition(b"\0")[0]
            target = link.decode("utf-8", "surrogateescape")
            cleaned = clean(target) if flag == HARD_LINK else target
            why = why or ("" if cleaned and "\0" not in cleaned else "its link leads nowhere or out of the image")
            target = cleaned or ""
        if why or path is None:
            self._problem(name, why)
            return None
        uid, gid = self._value(fields[2], pax.get("uid")), self._value(fields[3], pax.get("gid"))
        mode = kind | self._number(fields[1]) & 0o7777 if kind else 0
        mtime = self._value(fields[5], pax.get("mtime"))
        return Member(path, mode, uid, gid, size if kind == stat.S_IFREG else 0, mtime, target, offset)

    def _sparse_map(self, rest: bytes) -> None:
        """Step over the blocks in which a GNU sparse header goes on (flag at byte 482 of it, at 504 of the others)."""
        more = rest[137]
        while more:
            more = self._exactly(BLOCK)[504]

    def _problem(self, name: str, why: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append((name.replace("\0", "\\0")[:MAX_PATH_BYTES], why))

    def _size(self, field: bytes, pax: bytes | None) -> int:
        size = self._value(field, pax)
        if not 0 <= size < SIZE_END:
            raise TarError(f"{self._label}: a member of {size} bytes, at byte {self._position() - BLOCK}")
        return size

    def _value(self, field: bytes, pax: bytes | None) -> int:
        if not pax:
            known = self._numbers.get(field)
            return self._number(field) if known is None else known
        if not PAX_NUMBER.fullmatch(pax):
            raise TarError(f"{self._label}: {pax[:40]!r} is not a number")
        return int(pax.partition(b".")[0] or 0)

    def _number(self, field: bytes) -> int:
        """A header field: octal digits, or base-256 when the first bit is set."""
        known = self._numbers.get(field)
        if known is not None:
            return known
        if field[0] & 0x80:
            value = int.from_bytes(bytes((field[0] & 0x3F,)) + field[1:], "big")
            value = min(value, SIZE_END) if not field[0] & 0x40 else -1
        else:
            digits = field.partition(b"\0")[0].strip(b" ")
            try:
                value = int(digits, 8) if digits else 0
            except ValueError:
                value = -1
            if value < 0 or not (digits.isdigit() or not digits):
                raise TarError(f"{self._label}: {field!r} is not a number, at byte {self._position() - BLOCK}")
        if len(self._numbers) >= NUMBERS_MAX:
            self._numbers.clear()
        self._numbers[field] = value
        return value

    def _small(self, size: int) -> bytes:
        """The content of an extended header."""
        if size > MAX_HEADER_BYTES:
            raise TarError(f"{self._label}: an extended header of {size} bytes")
        return bytes(self._exactly(size + -size % BLOCK)[:size])

    def _pax(self, text: bytes) -> dict[str, bytes]:
        """The records of a pax header: ``LENGTH key=value`` and a line end, LENGTH counting all of it."""
        found: dict[str, bytes] = {}
        at = 0
        while at < len(text):
            match = PAX_LENGTH.match(text, at)
            end = at + int(match[1]) if match else 0
            if match is None or end > len(text) or end <= match.end() or text[end - 1 : end] != b"\n":
                raise TarError(f"{self._label}: a pax header that is not made of records")
            key, equals, value = text[match.end() : end - 1].partition(b"=")
            if not equals:
                raise TarError(f"{self._label}: a pax record without a value")
            found[key.decode("utf-8", "replace")] = value
            at = end
        return found

    def _position(self) -> int:
        return self._before + self._at

    def _fill(self) -> bool:
        """Go on to the next chunk that is not empty; whether there is one."""
        self._before += len(self._view)
        self._at = 0
        for chunk in self._chunks:
            if chunk:
                self._view = memoryview(chunk)
                return True
        self._view = memoryview(b"")
        return False

    def _some(self, most: int) -> memoryview:
        if self._at >= len(self._view) and not self._fill():
            raise TarError(f"{self._label}: ends in the middle of a member, at byte {self._position()}")
        piece = self._view[self._at : self._at + most]
        self._at += len(piece)
        return piece

    def _skip(self, count: int) -> None:
        while count:
            count -= len(self._some(count))

    def _exactly(self, count: int) -> memoryview:
        end = self._at + count
        if end <= len(self._view):
            block = self._view[self._at : end]
            self._at = end
            return block
        parts: list[memoryview] = []
        while count:
            parts.append(self._some(count))
            count -= len(parts[-1])
        return memoryview(b"".join(parts))


def clean(name: str) -> str | None:
    """``name`` as a path relative to the root without ``.`` and empty parts; None when it leads out of the root or is
    longer than a file system takes. Engines strip the leading slash of an absolute path, and so it is done here."""
    if "\0" in name:
        return None
    if "//" not in name and "./" not in name and not name.startswith("/") and not name.endswith("."):
        path = name.rstrip("/")
        parts: list[str] = []
    else:
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts:
            return None
        path = "/".join(parts)
    if len(path) > MAX_NAME_BYTES // 4:
        raw = path.encode("utf-8", "surrogateescape")
        if len(raw) > MAX_PATH_BYTES or (len(raw) > MAX_NAME_BYTES and max(map(len, raw.split(b"/"))) > MAX_NAME_BYTES):
            return None
    return path


def _name(fields: tuple[bytes, ...]) -> bytes:
    """The name of a plain header; POSIX ones have a prefix (GNU ones keep times in that place)."""
    name = fields[0].partition(b"\0")[0]
    prefix = fields[15].partition(b"\0")[0] if fields[9] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _signed_sum(block: memoryview) -> int:
    """The checksum as some old writers made it: of signed bytes."""
    data: Callable[[int], int] = lambda byte: byte - 256 if byte > 127 else byte  # noqa: E731
    return sum(map(data, block[:148])) + 8 * 0x20 + sum(map(data, block[156:]))
