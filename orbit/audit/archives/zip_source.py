"""Read a zip archive that nobody vouches for: its directory first, then members as streams. Nothing is ever written.

Written for wheels: stored and deflated members, zip64, data descriptors. Sizes, offsets and names are claims, each
checked before it is used; what an archive promises to unpack to is limited in all (bombs) and by what its bytes can
hold (deflate gives at most 1032 bytes for one); members that share bytes, links, encrypted ones and names that would
leave the folder they are unpacked to are told apart, not followed. A stream stops at the size the directory states.

Layout: APPNOTE.TXT 6.3.10 of PKWARE, sections 4.3 and 4.5. The central directory is what installers obey; the local
header is read for the position of the data, and must name the same file.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from orbit.errors import InputError

END = struct.Struct("<4s4H2LH")
END64_LOCATOR = struct.Struct("<4sLQL")
END64 = struct.Struct("<4sQ2H2L4Q")
CENTRAL = struct.Struct("<4s4B4HL2L5H2L")
LOCAL = struct.Struct("<4s2B4HL2L2H")
END_MAGIC, LOCATOR_MAGIC, END64_MAGIC = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"
CENTRAL_MAGIC, LOCAL_MAGIC = b"PK\x01\x02", b"PK\x03\x04"
MAX_COMMENT = 65535
FULL32 = 0xFFFFFFFF
STORED, DEFLATED = 0, 8
FLAG_ENCRYPTED, FLAG_UTF8, FLAG_MASKED = 0x1, 0x800, 0x2000
UNIX = 3

MAX_MEMBERS = 200_000
"""Members that are listed; the largest wheel on the index that we know has 25,000."""
MAX_DIRECTORY_BYTES = 32 << 20
MAX_NAME, MAX_DEPTH = 1024, 40
"""Characters and components of a member's name; longer ones are not followed: each stands for as many folders."""
MAX_MEMBER_BYTES = 16 << 30
"""Unpacked size of one member that is read; the largest shared object that we know has 3 GB."""
MAX_TOTAL_BYTES = 64 << 30
"""Unpacked size of all members of one archive that are read."""
TOTAL_RATIO, TOTAL_FROM = 100, 4 << 30
"""Unpacked to packed bytes of a whole archive that unpacks to more than ``TOTAL_FROM``; real wheels are below 10."""
MAX_RATIO = 250
"""Unpacked to packed bytes of one member larger than ``RATIO_FROM``; device code of real wheels is below 30."""
RATIO_FROM = 256 << 20
MAX_DEFLATE = 1032
"""Bytes that one byte of deflate data can stand for (zlib's technical details)."""
CHUNK = 1 << 20
NAME_SLACK = 64
"""So many bytes more than the name can need are read with it."""


PROBLEMS = {
    "unsafe": "its name leads out of the folder it is unpacked to, or means different files to different tools",
    "link": "a symbolic link: installers write its text as a file, other tools follow it",
    "special": "a device, pipe or socket",
    "encrypted": "encrypted",
    "method": "packed in a way other than stored and deflated",
    "bomb": "it would unpack to more than any wheel needs",
    "size": "the sizes stated for it contradict each other",
    "overlap": "it shares bytes with another member",
    "outside": "its bytes lie outside the archive's data",
}
"""Why a member is not read, by kind."""


class NotZip(InputError):
    """The file is no zip archive, or its directory is damaged."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}", fix="it was cut short or is no wheel: download or build it again")
        self.why = why


class MemberDamage(Exception):
    """A member cannot be read; the text says why."""


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of the central directory."""

    name: str
    """As stored; bytes that are not UTF-8 as surrogates. Unsafe names are kept as they are: ``problem`` says so."""
    mode: int
    """Type and permission bits when made on Unix, else 0."""
    size: int
    """Bytes when unpacked, as stated."""
    packed: int
    """Bytes in the archive, as stated."""
    crc: int
    method: int
    offset: int
    """Of the local header."""
    problem: str = ""
    """Kind of the reason why it is not read, a key of ``PROBLEMS``, or empty."""

    @property
    def is_folder(self) -> bool:
        """Whether it stands for a folder."""
        return self.name.endswith("/")

    @property
    def executable(self) -> bool:
        """Whether installers make it executable."""
        return bool(self.mode & 0o111)


class ZipSource:
    """An open archive. Raises :class:`NotZip` when it is none, OSError when it cannot be opened."""

    tail_bytes = END.size + MAX_COMMENT
    """At the end of the file: where the end record is looked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # read, never mapped: a file that is cut short meanwhile must not end the process
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            info = os.fstat(self._handle)
            if not stat.S_ISREG(info.st_mode):
                raise NotZip(path, "not a regular file")
            self.size = info.st_size
            self._start, size, count = self._directory()
            self.members = tuple(self._judged(list(self._entries(self._read(size, self._start), count))))
        except BaseException:
            os.close(self._handle)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        os.close(self._handle)

    def _read(self, size: int, offset: int) -> bytes:
        """``size`` bytes at ``offset``, fewer where the file ends."""
        parts = []
        while size > 0 and (part := os.pread(self._handle, size, offset)):
            parts.append(part)
            size, offset = size - len(part), offset + len(part)
        return b"".join(parts)

    def _directory(self) -> tuple[int, int, int]:
        """(position, bytes, number of entries) of the central directory."""
        tail_at = max(0, self.size - self.tail_bytes)
        tail = self._read(self.size - tail_at, tail_at)
        at = tail.rfind(END_MAGIC, 0, max(0, len(tail) - END.size + len(END_MAGIC)))
        if at < 0:
            raise NotZip(self.path, "not a zip archive: it has no end record")
        _magic, disk, first_disk, _here, count, size, offset, comment = END.unpack_from(tail, at)
        if at + END.size + comment != len(tail):
            raise NotZip(self.path, "its end record is not at its end")
        end = tail_at + at
        locator = self._read(END64_LOCATOR.size, max(0, end - END64_LOCATOR.size))
        if locator[:4] == LOCATOR_MAGIC and len(locator) == END64_LOCATOR.size:
            end = END64_LOCATOR.unpack(locator)[2]
            record = self._read(END64.size, end) if end < self.size else b""
            if record[:4] != END64_MAGIC or len(record) < END64.size:
                raise NotZip(self.path, f"its zip64 end record is not at {end}")
            fields = END64.unpack(record)
            disk, first_disk, count, size, offset = fields[4], fields[5], fields[7], fields[8], fields[9]
        if disk or first_disk:
            raise NotZip(self.path, "one part of an archive in several files")
        if offset + size != end:
            raise NotZip(self.path, f"its directory of {size} bytes at {offset} does not end at its end record ({end})")
        if count > MAX_MEMBERS or size > MAX_DIRECTORY_BYTES or count * CENTRAL.size > size:
            raise NotZip(self.path, f"a directory of {size} bytes with {count} members")
        return offset, size, count

    def _entries(self, table: bytes, count: int) -> Iterator[Member]:
        position, end = 0, len(table)
        for _ in range(count):
            if position + CENTRAL.size > end:
                raise NotZip(self.path, "its directory is cut short")
            fields = CENTRAL.unpack_from(table, position)
            if fields[0] != CENTRAL_MAGIC:
                raise NotZip(self.path, f"its directory is damaged at byte {self._start + position}")
            system, flags, method = fields[2], fields[5], fields[6]
            crc, packed, size, name_bytes, extra_bytes, comment_bytes = fields[9:15]
            external, offset = fields[17], fields[18]
            rest = position + CENTRAL.size
            position = rest + name_bytes + extra_bytes + comment_bytes
            if position > end:
                raise NotZip(self.path, "its directory is cut short")
            raw = table[rest : rest + name_bytes]
            extra = table[rest + name_bytes : rest + name_bytes + extra_bytes]
            size, packed, offset = _zip64(extra, size, packed, offset)
            mode = external >> 16 if system == UNIX else 0
            name = _decode(raw, flags)
            problem = _problem(name, mode, flags, method) or _sizes(size, packed, method)
            yield Member(name, mode, size, packed, crc, method, offset, problem)
        if position != end:
            raise NotZip(self.path, f"its directory has {end - position} bytes more than its {count} members")

    def _judged(self, members: list[Member]) -> Iterator[Member]:
        """Members with what shows only beside the others: shared bytes, too much in all."""
        shared: set[int] = set()
        reach, holder = 0, -1
        for start, end in sorted((item.offset, item.offset + LOCAL.size + item.packed) for item in members):
            if start < reach:
                shared |= {start, holder}
            if end > reach:
                reach, holder = end, start
        total, limit = 0, min(MAX_TOTAL_BYTES, max(TOTAL_FROM, TOTAL_RATIO * self.size))
        for item in members:
            problem = item.problem
            if not problem and item.offset + LOCAL.size + item.packed > self._start:
                problem = "outside"
            elif not problem and item.offset in shared:
                problem = "overlap"
            total += 0 if problem else item.size
            if not problem and total > limit:
                problem = "bomb"
            yield replace(item, problem=problem) if problem != item.problem else item

    def place(self, member: Member) -> tuple[int, int]:
        """(position, size) of a member's packed bytes. Raises :class:`MemberDamage` when its local header lies."""
        at = member.offset
        if member.problem:
            raise MemberDamage(PROBLEMS[member.problem])
        header = self._read(LOCAL.size + 4 * len(member.name) + NAME_SLACK, at)
        if header[:4] != LOCAL_MAGIC or len(header) < LOCAL.size:
            raise MemberDamage(f"no local header at byte {at}")
        fields = LOCAL.unpack_from(header)
        flags, method, name_bytes, extra_bytes = fields[3], fields[4], fields[10], fields[11]
        raw = header[LOCAL.size : LOCAL.size + name_bytes]
        if method != member.method or _decode(raw, flags) != member.name:
            raise MemberDamage("its local header tells of another file than the directory")
        start = at + LOCAL.size + name_bytes + extra_bytes
        if start + member.packed > self._start:
            raise MemberDamage("its bytes run into the directory")
        return start, member.packed

    def stream(self, member: Member) -> Iterator[bytes]:
        """The content in pieces of at most ``CHUNK`` bytes. Raises :class:`MemberDamage` when it is not what the
        directory states: another size or checksum, or not deflate data."""
        start, packed = self.place(member)
        crc = done = 0
        pieces = self._stored(start, packed) if member.method == STORED else self._inflated(start, packed, member.size)
        try:
            for piece in pieces:
                done += len(piece)
                if done > member.size:
                    break
                crc = zlib.crc32(piece, crc)
                yield piece
        except zlib.error as error:
            raise MemberDamage(f"its data cannot be unpacked: {error}") from None
        if done != member.size:
            what = "more" if done > member.size else f"{done} bytes"
            raise MemberDamage(f"it unpacks to {what} instead of the {member.size} bytes stated")
        if crc != member.crc:
            raise MemberDamage("its checksum is another than stated")

    def read(self, member: Member, limit: int) -> bytes | None:
        """The whole content; None when it is longer than ``limit`` or cannot be read."""
        if member.size > limit:
            return None
        try:
            return b"".join(self.stream(member))
        except MemberDamage:
            return None

    def head(self, member: Member, size: int) -> bytes | None:
        """The first ``size`` bytes of the content, unchecked; None when they cannot be read."""
        try:
            return next(self.stream(member), b"")[:size]
        except MemberDamage:
            return None

    def _stored(self, start: int, size: int) -> Iterator[bytes]:
        for at in range(start, start + size, CHUNK):
            yield self._read(min(CHUNK, start + size - at), at)

    def _inflated(self, start: int, packed: int, size: int) -> Iterator[bytes]:
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        left = size + 1  # one byte more tells that there is more
        for at in range(start, start + packed, CHUNK):
            pending = self._read(min(CHUNK, start + packed - at), at)
            while pending and left > 0 and not inflate.eof:
                piece = inflate.decompress(pending, min(CHUNK, left))
                pending = inflate.unconsumed_tail
                left -= len(piece)
                if piece:
                    yield piece
            if inflate.eof or left <= 0:
                break
        while left > 0 and not inflate.eof:
            piece = inflate.decompress(inflate.unconsumed_tail, min(CHUNK, left))
            if not piece:
                raise zlib.error("it ends in the middle")
            left -= len(piece)
            yield piece


def _zip64(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int]:
    """Sizes and offset with those of the zip64 extra field in place of the full 32-bit ones."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            body = extra[at + 4 : at + 4 + length]
            taken = iter([value for (value,) in struct.iter_unpack("<Q", body[: len(body) // 8 * 8])])
            size = next(taken, size) if size == FULL32 else size
            packed = next(taken, packed) if packed == FULL32 else packed
            offset = next(taken, offset) if offset == FULL32 else offset
            break
        at += 4 + length
    return size, packed, offset


def _decode(raw: bytes, flags: int) -> str:
    """A member's name; without the UTF-8 flag installers read code page 437, in which ASCII is ASCII."""
    if flags & FLAG_UTF8 or raw.isascii():
        return raw.decode("utf-8", "surrogateescape")
    return raw.decode("cp437")


def is_unsafe(name: str) -> bool:
    """Whether a name leads out of the folder it is unpacked to, or means different files to different tools."""
    parts = name.removesuffix("/").split("/")
    if len(name) > MAX_NAME or len(parts) > MAX_DEPTH or "\0" in name or "\\" in name or name[1:2] == ":":
        return True
    return any(part in ("", ".", "..") for part in parts)


def _problem(name: str, mode: int, flags: int, method: int) -> str:
    if is_unsafe(name):
        return "unsafe"
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        return "link"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "special"
    if flags & (FLAG_ENCRYPTED | FLAG_MASKED):
        return "encrypted"
    return "" if method in (STORED, DEFLATED) else "method"


def _sizes(size: int, packed: int, method: int) -> str:
    if size > MAX_MEMBER_BYTES or (size > RATIO_FROM and size > MAX_RATIO * packed):
        return "bomb"
    return "size" if (method == STORED and size != packed) or size > MAX_DEFLATE * packed + 64 else ""
