"""From members to a compressed layer blob in one pass: read, tar, hash, compress, hash, write. No copy of the tree."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Literal, Protocol

import zstandard

from orbit.core.files import naming, sync_folder
from orbit.core.records import Record
from orbit.image.damage import damaged_blob
from orbit.image.tar import CHUNK_BYTES

Codec = Literal["zstd", "gzip", "none"]

ZSTD_LEVEL = 3
"""Measured on this stack (docs/image.md): level 6 takes 2.3 times the processor time of level 3 for 3 % less."""
ZSTD_JOB_BYTES = 8 << 20
"""Input per compression job. Fixed, because zstd cuts its frames by it; the number of workers does not enter."""
WORKERS_MAX = 16
"""Threads that compress one layer."""
HASH_AHEAD = 16
"""Pieces of :data:`orbit.image.tar.CHUNK_BYTES` that may wait to be hashed."""
GZIP_LEVEL = 6
GZIP_JOB_BYTES = 1 << 20
GZIP_WINDOW_BYTES = 32 << 10
"""How far back deflate looks: each job starts with so much of the one before it (RFC 1951)."""

MEDIA_TYPE: dict[Codec, str] = {
    "zstd": "application/vnd.oci.image.layer.v1.tar+zstd",
    "gzip": "application/vnd.oci.image.layer.v1.tar+gzip",
    "none": "application/vnd.oci.image.layer.v1.tar",
}
CODEC_OF: dict[str, Codec] = {media: codec for codec, media in MEDIA_TYPE.items()}


class LayerBlob(Record, frozen=True, kw_only=True):
    """What is known of a written layer."""

    digest: str
    """``sha256:`` of the blob as stored."""
    diff_id: str
    """``sha256:`` of the tar stream inside it."""
    size: int
    """Bytes of the blob."""
    tar_bytes: int
    """Bytes of the tar stream."""
    files: int
    """Members that are no folders."""
    codec: Codec


class Sink(Protocol):
    """Where compressed bytes go."""

    def write(self, data: bytes, /) -> int:
        """Take all of ``data``."""


class Packer(Protocol):
    """A stream that compresses into a :class:`Sink`."""

    def write(self, data: bytes, /) -> int:
        """Take input."""

    def close(self) -> None:
        """Give the rest; the sink stays open."""


class _Gzip:
    """One gzip member (RFC 1952) whose deflate stream is cut into jobs of a fixed size that threads compress.

    Each job ends on a byte (a sync flush) and knows the window before it, so the joined stream is an ordinary one, and
    the bytes are the same for any number of workers.
    """

    HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    """No name, no time, no system."""

    def __init__(self, sink: Sink, workers: int) -> None:
        self._sink = sink
        self._pool = ThreadPoolExecutor(workers)
        self._ahead = 2 * workers
        self._jobs: deque[Future[bytes]] = deque()
        self._pending = bytearray()
        self._window = b""
        self._crc = self._size = 0
        sink.write(self.HEADER)

    def write(self, data: bytes, /) -> int:
        self._crc = zlib.crc32(data, self._crc)
        self._size += len(data)
        self._pending += data
        while len(self._pending) > GZIP_JOB_BYTES:  # the last job must not be empty
            self._submit(bytes(self._pending[:GZIP_JOB_BYTES]), zlib.Z_SYNC_FLUSH)
            del self._pending[:GZIP_JOB_BYTES]
        self._take(self._ahead)
        return len(data)

    def close(self) -> None:
        self._submit(bytes(self._pending), zlib.Z_FINISH)
        self._take(0)
        self._pool.shutdown()
        self._sink.write(struct.pack("<II", self._crc, self._size & 0xFFFFFFFF))

    def _submit(self, data: bytes, mode: int) -> None:
        self._jobs.append(self._pool.submit(_deflate, data, self._window, mode))
        self._window = data[-GZIP_WINDOW_BYTES:]

    def _take(self, left: int) -> None:
        while len(self._jobs) > left:
            self._sink.write(self._jobs.popleft().result())


def _deflate(data: bytes, window: bytes, mode: int) -> bytes:
    """``data`` as a piece of a deflate stream behind ``window``."""
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -15, zdict=window) if window else _bare()
    return packer.compress(data) + packer.flush(mode)


def _bare() -> zlib._Compress:
    return zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -15)


class _Plain:
    """No compression."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, data: bytes, /) -> int:
        return self._sink.write(data)

    def close(self) -> None:
        pass


def codec_identity(codec: Codec) -> dict[str, str | int]:
    """Everything that decides the compressed bytes besides the input: part of a layer's content key."""
    if codec == "zstd":
        version = ".".join(str(part) for part in zstandard.ZSTD_VERSION)
        return {"codec": codec, "level": ZSTD_LEVEL, "job_bytes": ZSTD_JOB_BYTES, "library": version}
    if codec == "gzip":
        return {
            "codec": codec,
            "level": GZIP_LEVEL,
            "job_bytes": GZIP_JOB_BYTES,
            "library": zlib.ZLIB_RUNTIME_VERSION,
        }
    return {"codec": codec}


def packer(codec: Codec, sink: Sink, *, workers: int | None = None, level: int = ZSTD_LEVEL) -> Packer:
    """A compressor into ``sink`` whose output depends on its input alone.

    zstd always runs in its multi-threaded mode (one worker at least): there the frame is cut into jobs of a fixed size
    and the bytes are the same for any number of workers, but differ from those of the single-threaded mode.
    """
    count = max(1, workers or min(len(os.sched_getaffinity(0)), WORKERS_MAX))
    if codec == "zstd":
        parameters = zstandard.ZstdCompressionParameters.from_level(
            level, threads=count, job_size=ZSTD_JOB_BYTES, write_checksum=1, write_content_size=0
        )
        packed = zstandard.ZstdCompressor(compression_params=parameters)
        return packed.stream_writer(sink, write_size=CHUNK_BYTES, closefd=False)  # type: ignore[arg-type]
    return _Gzip(sink, count) if codec == "gzip" else _Plain(sink)


class HashedFile:
    """Bytes as they are written to an open file: counted and hashed (``size``, ``digest``)."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes, /) -> int:
        """Take all of ``data``."""
        self.digest.update(data)
        self.size += len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._handle, view) :]
        return len(data)


class _Side:
    """Digests computed beside the main thread, in order; hashing releases the interpreter lock."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._hash = hashlib.sha256()
        self._waiting: deque[Future[None]] = deque()

    def update(self, data: bytes) -> None:
        """Hash ``data`` after what came before; a few pieces may wait, so that neither side waits for the other."""
        self._waiting.append(self._pool.submit(self._hash.update, data))
        while len(self._waiting) > HASH_AHEAD:
            self._waiting.popleft().result()

    def hexdigest(self) -> str:
        """The digest of everything given."""
        while self._waiting:
            self._waiting.popleft().result()
        return self._hash.hexdigest()


def write_blob(
    chunks: Iterable[bytes], folder: Path, codec: Codec, *, files: int, workers: int | None = None
) -> LayerBlob:
    """Write the tar stream ``chunks`` of ``files`` members as a blob into ``folder``, named by its sha256.

    ``workers`` threads compress (by default one for each core); the blob is the same for any number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / ".partial"
    tar_bytes = 0
    with naming(folder), ThreadPoolExecutor(1) as pool, open(partial, "wb", buffering=0) as file:
        inner = _Side(pool)
        outer = HashedFile(file.fileno())
        pack = packer(codec, outer, workers=workers)
        for chunk in chunks:
            tar_bytes += len(chunk)
            inner.update(chunk)
            pack.write(chunk)
        pack.close()
        os.fsync(file.fileno())
        diff_id = inner.hexdigest()
    final = folder / outer.digest.hexdigest()
    os.chmod(partial, 0o444)
    os.rename(partial, final)
    sync_folder(folder)
    return LayerBlob(
        digest=f"sha256:{final.name}",
        diff_id=f"sha256:{diff_id}",
        size=outer.size,
        tar_bytes=tar_bytes,
        files=files,
        codec=codec,
    )


def read_tar(path: Path, codec: Codec) -> Iterator[bytes]:
    """The tar stream inside a blob, in pieces. Raises :class:`DamagedImage` when it cannot be decompressed."""
    try:
        with open(path, "rb") as file:
            if codec == "zstd":
                yield from zstandard.ZstdDecompressor().read_to_iter(file, write_size=CHUNK_BYTES)
            elif codec == "gzip":
                unpack = zlib.decompressobj(31)
                while piece := file.read(CHUNK_BYTES):
                    yield unpack.decompress(piece)
                yield unpack.flush()
            else:
                while piece := file.read(CHUNK_BYTES):
                    yield piece
    except (zstandard.ZstdError, zlib.error) as error:
        raise damaged_blob(path, f"not a whole {codec} stream: {error}") from None


def verified_tar(path: Path, codec: Codec, diff_id: str) -> Iterator[bytes]:
    """:func:`read_tar`, and at its end :class:`DamagedImage` unless the stream had the sha256 ``diff_id``."""
    digest = hashlib.sha256()
    for piece in read_tar(path, codec):
        digest.update(piece)
        yield piece
    if f"sha256:{digest.hexdigest()}" != diff_id:
        raise damaged_blob(path, f"its unpacked content is not {diff_id}")
