"""What each part of a layer costs to pull: bytes of the compressed blob, measured block by block.

A zstd frame is a chain of blocks of at most 128 KiB, each stated with its compressed size (RFC 8878, section 3.1.1.2);
unpacked one at a time, each shows exactly which bytes of the tar stream it holds. gzip has no such chain that could be
seen from outside: there the input is fed in small pieces and the output counted. What shares a block (or a piece)
shares its bytes by size; the sum over a layer is the size of its blob, to the byte.
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import os
import stat
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import zstandard

from orbit.audit.images import tar_stream
from orbit.audit.images.decompress import MAGIC_BYTES, SKIPPABLE, codec_of
from orbit.audit.images.image_source import Place
from orbit.audit.images.tar_stream import BLOCK, TarStream
from orbit.audit.installed.fact_cache import read_checked, write_checked
from orbit.core.console import BYTES, Progress
from orbit.core.files import remove_tree
from orbit.errors import InputError

READ_BYTES = 1 << 20
GZIP_PIECE_BYTES = 4096
MARK_BYTES = 1 << 12
"""Of unpacked bytes between two marks, at least."""
PASS_BYTES = 1 << 18
"""Of unpacked bytes handed on at once."""
MAGIC = 0xFD2FB528
RLE = 1
DAMAGED = "the image is damaged: make it again"

type Packed = tuple[bytes, int]
"""Unpacked bytes, and how many bytes of the blob they took."""


class PullMap(msgspec.Struct, frozen=True, array_like=True):
    """Where the bytes of a tar stream are in the blob it was unpacked from."""

    unpacked: bytes
    """64-bit positions in the tar stream, ascending from 0."""
    packed: bytes
    """The position in the blob at each of them."""
    starts: bytes
    """Where each member's header starts in the tar stream; one more for what follows the last."""
    contents: bytes
    """Where each member's content starts."""

    def measure(self) -> Measure:
        """The map ready to be asked."""
        return Measure(_longs(self.unpacked), _longs(self.packed), _longs(self.starts), _longs(self.contents))


class Measure:
    """Answers how many bytes of the blob a part of the tar stream takes."""

    def __init__(
        self, unpacked: Sequence[int], packed: Sequence[int], starts: Sequence[int], contents: Sequence[int]
    ) -> None:
        self._unpacked, self._packed = unpacked, packed
        self.starts, self.contents = starts, contents

    @property
    def total(self) -> int:
        """Bytes of the blob."""
        return self._packed[-1]

    def at(self, position: int) -> int:
        """The position in the blob that belongs to one in the tar stream; between two marks in proportion."""
        number = bisect.bisect_right(self._unpacked, position) - 1
        if number + 1 >= len(self._unpacked):
            return self.total
        low, high = self._unpacked[number], self._unpacked[number + 1]
        first, last = self._packed[number], self._packed[number + 1]
        return first + (position - low) * (last - first) // (high - low)

    def between(self, start: int, stop: int) -> int:
        """Bytes of the blob from one position of the tar stream to another. Neighbours add up without a remainder."""
        return self.at(stop) - self.at(start)

    def member(self, number: int) -> int:
        """Bytes of the blob that a member takes with its headers."""
        return self.between(self.starts[number], self.starts[number + 1])


def _longs(data: bytes) -> Sequence[int]:
    found = array("q")
    found.frombytes(data)
    return found


# --- unpacking with marks ---------------------------------------------------------------------------------------------


class _Input:
    """Pieces of a blob, taken in exact sizes."""

    def __init__(self, pieces: Iterator[bytes], label: str) -> None:
        self._pieces = pieces
        self._label = label
        self._held = b""
        self._at = 0

    def exactly(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        if len(self._held) - self._at < count:
            parts = [self._held[self._at :]]
            have = len(parts[0])
            while have < count:
                piece = next(self._pieces, b"")
                if not piece:
                    raise InputError(f"{self._label}: ends too early", fix=DAMAGED)
                parts.append(piece)
                have += len(piece)
            self._held, self._at = b"".join(parts), 0
        found = self._held[self._at : self._at + count]
        self._at += count
        return found

    def ended(self) -> bool:
        """Whether nothing is left."""
        while self._at >= len(self._held):
            self._held, self._at = next(self._pieces, b""), 0
            if not self._held:
                return True
        return False


def _zstd(pieces: Iterator[bytes], label: str) -> Iterator[Packed]:
    source = _Input(pieces, label)
    while not source.ended():
        head = source.exactly(4)
        number = int.from_bytes(head, "little")
        if number in SKIPPABLE:
            size = int.from_bytes(more := source.exactly(4), "little")
            source.exactly(size)
            yield b"", len(head) + len(more) + size
            continue
        if number != MAGIC:
            raise InputError(f"{label}: not a zstd frame where one must be", fix=DAMAGED)
        yield from _frame(source, head)


def _frame(source: _Input, head: bytes) -> Iterator[Packed]:
    """The blocks of one frame."""
    descriptor = source.exactly(1)
    flags = descriptor[0]
    single = bool(flags & 0x20)
    size = (0 if single else 1) + (0, 1, 2, 4)[flags & 3] + ((1 if single else 0), 2, 4, 8)[flags >> 6]
    head += descriptor + source.exactly(size)
    unpack = zstandard.ZstdDecompressor().decompressobj()
    taken, last = len(head), False
    out = unpack.decompress(head)
    while not last:
        block = source.exactly(3)
        fields = int.from_bytes(block, "little")
        last, kind, stored = bool(fields & 1), fields >> 1 & 3, fields >> 3
        block += source.exactly(1 if kind == RLE else stored)
        taken += len(block)
        out += unpack.decompress(block)
        if not last:
            yield out, taken
            out, taken = b"", 0
    if flags & 4:
        checksum = source.exactly(4)
        out += unpack.decompress(checksum)
        taken += len(checksum)
    yield out, taken


def _gzip(pieces: Iterator[bytes], label: str) -> Iterator[Packed]:
    unpack = zlib.decompressobj(31)
    for piece in pieces:
        for at in range(0, len(piece), GZIP_PIECE_BYTES):
            data = piece[at : at + GZIP_PIECE_BYTES]
            size, out = len(data), b""
            while data:
                if unpack.eof:
                    if not data.strip(b"\0"):
                        break
                    unpack = zlib.decompressobj(31)
                out += unpack.decompress(data)
                data = unpack.unused_data
            yield out, size
    if not unpack.eof:
        raise InputError(f"{label}: ends too early", fix=DAMAGED)


def _plain(pieces: Iterator[bytes], _label: str) -> Iterator[Packed]:
    for piece in pieces:
        yield piece, len(piece)


CODECS: dict[str, Callable[[Iterator[bytes], str], Iterator[Packed]]] = {
    "zstd": _zstd,
    "gzip": _gzip,
    "none": _plain,
}


class _Marking:
    """Hands unpacked bytes on and keeps marks."""

    def __init__(self, packed: Iterator[Packed]) -> None:
        self.unpacked, self.packed = array("q", [0]), array("q", [0])
        self._source = packed

    def __iter__(self) -> Iterator[bytes]:
        out = taken = 0
        waiting: list[bytes] = []
        held = 0
        for data, size in self._source:
            taken += size
            out += len(data)
            if out - self.unpacked[-1] >= MARK_BYTES:
                self.unpacked.append(out)
                self.packed.append(taken)
            if data:
                waiting.append(data)
                held += len(data)
            if held >= PASS_BYTES:
                yield b"".join(waiting)
                waiting, held = [], 0
        if held:
            yield b"".join(waiting)
        if out == self.unpacked[-1]:
            self.packed[-1] = taken
        else:
            self.unpacked.append(out)
            self.packed.append(taken)


def map_blob(pieces: Iterator[bytes], label: str) -> PullMap:
    """The map of the blob in ``pieces``. Raises :class:`InputError` when it cannot be unpacked."""
    head = next(pieces, b"")
    while len(head) < MAGIC_BYTES and (more := next(pieces, b"")):
        head += more

    def whole() -> Iterator[bytes]:
        yield head
        yield from pieces

    marking = _Marking(CODECS[codec_of(head)](whole(), label))
    starts, contents = array("q", [0]), array("q")
    try:
        stream = TarStream(marking, label)
        for member in stream:
            contents.append(member.offset)
            size = member.size if stat.S_ISREG(member.mode) else 0
            starts.append(member.offset + size + -size % BLOCK)
        stream.drain()
    except (zstandard.ZstdError, zlib.error) as error:
        raise InputError(f"{label}: cannot be unpacked: {error}", fix=DAMAGED) from None
    return PullMap(marking.unpacked.tobytes(), marking.packed.tobytes(), starts.tobytes(), contents.tobytes())


# --- remembered -------------------------------------------------------------------------------------------------------


class PullCache:
    """Maps of blobs by their digest, in ``folder``."""

    def __init__(self, folder: Path) -> None:
        state = hashlib.sha256()
        for file in (__file__, tar_stream.__file__):
            state.update(Path(file).read_bytes())
        self._root = folder / "pull"
        self._folder = self._root / state.hexdigest()[:16]

    def load(self, digest: str) -> PullMap | None:
        """The map of the blob with this sha256 (hexadecimal)."""
        data = read_checked(self._folder / f"{digest}.map")
        try:
            packed = zstandard.ZstdDecompressor().decompress(data) if data is not None else None
            return msgspec.msgpack.decode(packed, type=PullMap) if packed is not None else None
        except (zstandard.ZstdError, msgspec.DecodeError):
            return None

    def save(self, digest: str, found: PullMap) -> None:
        """Remember a map; those of other versions of the reader go. Raises OSError."""
        if not self._folder.is_dir() and self._root.is_dir():
            for other in self._root.iterdir():
                if other.is_dir() and other != self._folder:
                    remove_tree(other)
        data = zstandard.ZstdCompressor(level=1).compress(msgspec.msgpack.encode(found))
        write_checked(self._folder / f"{digest}.map", data)


def measure_blobs(
    blobs: Sequence[tuple[Place, str]], memory: PullCache | None, progress: Progress
) -> tuple[Measure, ...]:
    """The measure of every blob (its place, its sha256 in hexadecimal), several at once. Nothing is compared with the
    digests: that was done when the facts of the layers were read."""
    known = [memory.load(digest) if memory is not None else None for _, digest in blobs]
    missing = [blob for blob, found in zip(blobs, known, strict=True) if found is None]
    total, done = sum(place.size for place, _ in missing), 0
    fresh: list[PullMap] = []
    with ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
        jobs = pool.map(lambda blob: map_blob(_pieces(blob[0]), f"layer {blob[1][:12]}"), missing)
        for (place, digest), found in zip(missing, jobs, strict=True):
            done += place.size
            progress.advance("measuring layers", done, total, BYTES)
            fresh.append(found)
            if memory is not None:
                with contextlib.suppress(OSError):  # the cache only saves time
                    memory.save(digest, found)
    rest = iter(fresh)
    return tuple((found or next(rest)).measure() for found in known)


def _pieces(place: Place) -> Iterator[bytes]:
    """The bytes of a blob. Raises :class:`InputError` when they end early."""
    handle = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        at, end = place.offset, place.offset + place.size
        while at < end:
            piece = os.pread(handle, min(READ_BYTES, end - at), at)
            if not piece:
                raise InputError(f"{place.path}: cut short", fix=DAMAGED)
            at += len(piece)
            yield piece
    finally:
        os.close(handle)
