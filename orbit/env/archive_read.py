"""Read an environment archive from a file or a pipe, believing nothing in it.

The list at the start (:mod:`orbit.env.archive_list`) decides what must follow: every header is compared with the one
the list asks for, byte by byte, and every file with its sha256 while it goes by. So there is no header to interpret,
nothing can come twice, and no more than the listed bytes are ever taken, whatever the stream decompresses to.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Protocol

import zstandard

from orbit.core.digests import record_digest
from orbit.env.archive_list import (
    LIST,
    LIST_MAX_BYTES,
    MANIFEST,
    MANIFEST_MAX_BYTES,
    Line,
    Manifest,
    parse_list,
    parse_manifest,
)
from orbit.errors import InputError
from orbit.image.tar import BLOCK, CHUNK_BYTES, RECORD, USTAR_MAX_SIZE, Member, header

AHEAD = 4
"""Pieces of :data:`PIECE_BYTES` that are decompressed before they are asked for."""
PIECE_BYTES = 1 << 20
STEP_BYTES = 8 << 10
"""What the decompressor gets at once: at worst (128 KiB out of 4 bytes) it makes 256 MiB of it."""
SIZE_FIELD = slice(124, 135)
"""Octal digits of a ustar header's size (POSIX.1-1988)."""
WINDOW_MAX = 128 << 20
"""Memory that a zstd frame may ask for to be decompressed: what the zstd program allows by default."""
AGAIN = "get the archive again and compare its sha256 with the one that `orbit env archive` printed: it was damaged"
NO_ARCHIVE = "give a file that `orbit env archive` made"

type Take = Callable[[bytes], None]


class Source(Protocol):
    """Where an archive comes from: an open file or pipe."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most ``size``; none at the end."""


class Archive:
    """An archive that is being read once, from front to back. Use it as a context manager.

    ``manifest`` and ``lines`` are there at once; :meth:`contents` gives the rest. Raises :class:`InputError` for what
    is no archive, and for one that was damaged or cut off: with the name of the file at which it was.
    """

    def __init__(self, source: Source, where: str) -> None:
        self.where = where
        self._source = _Counted(source)
        self._pool = ThreadPoolExecutor(1)
        self._pieces: deque[Future[bytes | None]] = deque()
        self._stream = _unpacked(self._source)
        self._rest = memoryview(b"")
        self._at = 0
        try:
            for _ in range(AHEAD):
                self._ask()
            self.manifest: Manifest = parse_manifest(self._head(MANIFEST, MANIFEST_MAX_BYTES), where)
            listed = self._head(LIST, min(LIST_MAX_BYTES, self.manifest.list_bytes))
            self.lines: tuple[Line, ...] = parse_list(listed, self.manifest, where)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading."""
        self._pool.shutdown(cancel_futures=True)

    @property
    def sha256(self) -> str:
        """Of the bytes read so far, hex: of the whole archive after :meth:`contents` ended."""
        return self._source.digest.hexdigest()

    @property
    def size(self) -> int:
        """Bytes read so far."""
        return self._source.size

    def contents(self, begin: Callable[[Line], Take]) -> Iterator[Line]:
        """Go through all paths in order: ``begin(line)`` says who takes the content of a file, then the line is given.

        The line of a file comes after its content was compared with its digest; that of a folder or link at once.
        """
        for line in self.lines:
            self._expect(line.member(), line.path)
            if line.is_file:
                self._file(line, begin(line))
            yield line
        end = bytes(2 * BLOCK + -(self._at + 2 * BLOCK) % RECORD)
        if self._exactly(len(end), "its end") != end:
            raise InputError(f"{self.where}: more follows than its list has", fix=AGAIN)
        self._nothing_follows()
        while self._source.read(CHUNK_BYTES):
            pass  # what follows the frame belongs to the file, and to its sha256

    def _nothing_follows(self) -> None:
        """The frame ends here, and its own checksum is right."""
        try:
            more = bool(self._rest) or bool(self._next())
        except (zstandard.ZstdError, EOFError) as error:
            raise InputError(f"{self.where}: damaged at its end: {error}", fix=AGAIN) from None
        if more:
            raise InputError(f"{self.where}: more follows than its list has", fix=AGAIN)

    def _file(self, line: Line, take: Take) -> None:
        digest = hashlib.sha256()
        left = line.size
        while left:
            piece = self._some(left, line.path)
            digest.update(piece)
            take(piece)
            left -= len(piece)
        padding = -line.size % BLOCK
        if padding and self._exactly(padding, line.path) != bytes(padding):
            raise self._damaged(line.path)
        if record_digest(digest.digest()) != line.what:
            raise self._damaged(line.path)

    def _head(self, name: str, limit: int) -> bytes:
        """The content of one of the first two members. Only its size is read from its header."""
        block = self._exactly(BLOCK, name, start=True)
        digits = bytes(block[SIZE_FIELD])
        size = int(digits, 8) if digits.isdigit() and digits.isascii() and not set(digits) & set(b"89") else -1
        if not 0 <= size <= min(limit, USTAR_MAX_SIZE) or block != header(Member(name, "file", 0o644, size=size)):
            raise InputError(f"{self.where}: no archive of an environment ({name} does not come first)", fix=NO_ARCHIVE)
        data = self._exactly(size, name)
        if self._exactly(-size % BLOCK, name) != bytes(-size % BLOCK):
            raise self._damaged(name)
        return data

    def _expect(self, member: Member, path: str) -> None:
        wanted = header(member)
        if self._exactly(len(wanted), path) != wanted:
            raise self._damaged(path)

    def _damaged(self, path: str) -> InputError:
        return InputError(f"{self.where}: {path} is not what the archive's list says (damaged)", fix=AGAIN)

    def _exactly(self, size: int, path: str, *, start: bool = False) -> bytes:
        pieces = []
        while size:
            piece = self._some(size, path, start=start)
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _some(self, most: int, path: str, *, start: bool = False) -> bytes:
        """The next bytes, at least one and at most ``most``."""
        while not self._rest:
            try:
                piece = self._next()
            except EOFError:
                piece = None
            except zstandard.ZstdError as error:
                if start:
                    raise InputError(f"{self.where}: no zstd stream: {error}", fix=NO_ARCHIVE) from None
                raise InputError(f"{self.where}: damaged in {path}: {error}", fix=AGAIN) from None
            if piece is None:
                raise InputError(f"{self.where}: ends in the middle of {path}", fix=AGAIN)
            self._rest = memoryview(piece)
        piece, self._rest = bytes(self._rest[:most]), self._rest[most:]
        self._at += len(piece)
        return piece

    def _next(self) -> bytes | None:
        if not self._pieces:
            return None
        piece = self._pieces.popleft().result()
        if piece is not None:
            self._ask()
        return piece

    def _ask(self) -> None:
        self._pieces.append(self._pool.submit(next, self._stream, None))


def _unpacked(source: Source) -> Iterator[bytes]:
    """The tar stream, in pieces of about :data:`PIECE_BYTES` however well it was compressed.

    Raises EOFError when the source ends before its frame does.
    """
    unpack = zstandard.ZstdDecompressor(max_window_size=WINDOW_MAX).decompressobj()
    pieces: list[bytes] = []
    size = 0
    for step in _steps(source):
        pieces.append(unpack.decompress(step))
        size += len(pieces[-1])
        if unpack.eof:
            break
        if size >= PIECE_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    if size:
        yield b"".join(pieces)
    if not unpack.eof:
        raise EOFError("the stream ends too early")


def _steps(source: Source) -> Iterator[memoryview]:
    while block := source.read(PIECE_BYTES):
        for at in range(0, len(block), STEP_BYTES):
            yield memoryview(block)[at : at + STEP_BYTES]


class _Counted:
    """A source whose bytes are hashed as they are read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.digest = hashlib.sha256()
        self.size = 0

    def read(self, size: int, /) -> bytes:
        """The next bytes, hashed."""
        piece = self._source.read(size)
        self.digest.update(piece)
        self.size += len(piece)
        return piece
