"""The tar stream inside a layer blob, in bounded memory: gzip and zstd (several frames too) known by their first bytes.

Reading, hashing and decompressing go on in threads of their own beside the reader of the result; all three release the
interpreter's lock.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, cast

import zstandard

from orbit.errors import InputError

PIECE_BYTES = 1 << 20
AHEAD = 4
"""Pieces that wait to be used."""
MAX_TAR_BYTES = 1 << 38
"""No layer unpacks to more (256 GiB)."""
FREE_BYTES = 2 << 30
MAX_RATIO = 200
"""What unpacks to more than the first and to so many times its own size is no image: nothing but zeros packs so well,
and a few megabytes of them would keep the audit busy for hours."""
MAGIC_BYTES = 6
REFUSED = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}
SKIPPABLE = range(0x184D2A50, 0x184D2A60)
"""First four bytes, little endian, of a zstd frame that carries something else than data."""


def codec_of(head: bytes) -> str:
    """``gzip``, ``zstd`` or ``none`` by the first bytes. Raises :class:`InputError` for what is not read."""
    for magic, name in REFUSED.items():
        if head.startswith(magic):
            raise InputError(f"a layer compressed with {name}", fix="known are zstd, gzip and plain tar")
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    number = int.from_bytes(head[:4], "little")
    return "zstd" if number == 0xFD2FB528 or number in SKIPPABLE else "none"


def decompressed(pieces: Iterable[bytes], label: str) -> Iterator[bytes]:
    """The bytes inside ``pieces``. Raises :class:`InputError`, also for a stream that is cut short or never ends."""
    packed = 0

    def counted() -> Iterator[bytes]:
        nonlocal packed
        for piece in pieces:
            packed += len(piece)
            yield piece

    source = counted()
    head = b""
    for piece in source:
        head += piece
        if len(head) >= MAGIC_BYTES:
            break
    codec = codec_of(head)
    whole = _chain(head, source)
    total = 0
    try:
        for piece in CODECS[codec](whole):
            total += len(piece)
            if total > MAX_TAR_BYTES:
                raise InputError(f"{label}: unpacks to more than {MAX_TAR_BYTES} bytes", fix="this is no image")
            if total > FREE_BYTES and total > packed * MAX_RATIO:
                raise InputError(
                    f"{label}: {packed} bytes unpack to more than {MAX_RATIO} times as many", fix="this is no image"
                )
            yield piece
    except (zstandard.ZstdError, zlib.error, EOFError) as error:
        raise InputError(
            f"{label}: not a whole {codec} stream: {error}", fix="the image is damaged: make it again"
        ) from None


def _chain(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if head:
        yield head
    yield from rest


def _gunzip(pieces: Iterator[bytes]) -> Iterator[bytes]:
    unpack = zlib.decompressobj(31)
    fresh = True
    for piece in pieces:
        data = piece
        while data:
            if unpack.eof:
                if not data.strip(b"\0"):  # padding, which gzip allows behind its members
                    break
                unpack, fresh = zlib.decompressobj(31), True
            out = unpack.decompress(data, PIECE_BYTES)
            fresh = False
            if out:
                yield out
            data = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
    while not unpack.eof and (out := unpack.decompress(b"", PIECE_BYTES)):
        yield out
    if not unpack.eof and not fresh:
        raise EOFError("it ends too early")


class _Reader:
    """Pieces as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes."""
        data = self._rest or next(self._pieces, b"")
        self._rest = data[size:]
        return data[:size]


def _unzstd(pieces: Iterator[bytes]) -> Iterator[bytes]:
    # a frame that is cut short ends like a whole one here: the reader of the tar misses its end mark
    source = cast("IO[bytes]", _Reader(pieces))
    with zstandard.ZstdDecompressor().stream_reader(source, PIECE_BYTES, read_across_frames=True) as reader:
        while piece := reader.read(PIECE_BYTES):
            yield piece


def _plain(pieces: Iterator[bytes]) -> Iterator[bytes]:
    return pieces


CODECS: dict[str, Callable[[Iterator[bytes]], Iterator[bytes]]] = {"gzip": _gunzip, "zstd": _unzstd, "none": _plain}


class Hashing[T: bytes | memoryview]:
    """Passes pieces on and hashes them, in a thread if ``beside``; :meth:`hexdigest` after the last one."""

    def __init__(self, pieces: Iterable[T], *, beside: bool = True) -> None:
        self.size = 0
        """Bytes passed on."""
        self._pieces = pieces
        self._hash = hashlib.sha256()
        self._pool = ThreadPoolExecutor(1) if beside else None
        self._last: Future[None] | None = None

    def __iter__(self) -> Iterator[T]:
        for piece in self._pieces:
            if self._last is not None:
                self._last.result()
            if self._pool is None:
                self._hash.update(piece)
            else:
                self._last = self._pool.submit(self._hash.update, piece)
            self.size += len(piece)
            yield piece

    def hexdigest(self) -> str:
        """sha256 of everything passed on."""
        if self._pool is not None:
            self._pool.shutdown()
        return self._hash.hexdigest()


class _Ahead[T]:
    """The thread behind :func:`ahead`."""

    def __init__(self, items: Iterable[T], depth: int) -> None:
        self.waiting: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
        self.stop = threading.Event()
        self._items = items
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _give(self, item: T | None, error: BaseException | None) -> bool:
        while not self.stop.is_set():
            try:
                self.waiting.put((item, error), timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def _work(self) -> None:
        try:
            for item in self._items:
                if not self._give(item, None):
                    return
        except BaseException as error:  # noqa: BLE001 - handed to the reader
            self._give(None, error)
        else:
            self._give(None, None)


def ahead[T](items: Iterable[T], depth: int = AHEAD) -> Generator[T]:
    """``items``, made in a thread that is at most ``depth`` of them ahead. What it raises is raised here."""
    maker = _Ahead(items, depth)
    try:
        while True:
            item, error = maker.waiting.get()
            if error is not None:
                raise error
            if item is None:
                return
            yield item
    finally:
        maker.stop.set()
        maker.thread.join()
