"""A program of its own: reads one layer blob (a file, or a part of an archive) and writes its facts to stdout.

A process and not a thread: of 100,000 members half the time goes into Python. Within it hashing and decompressing can
have a thread each; where every processor has a layer of its own to read, that would only cost (a twentieth).
"""

from __future__ import annotations

import collections
import gc
import mmap
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec

from orbit.audit.binary.elf import MappedFile
from orbit.audit.binary.sparse import Window
from orbit.audit.files.scan import MAX_READINGS
from orbit.audit.images.decompress import MAGIC_BYTES, PIECE_BYTES, Hashing, ahead, codec_of, decompressed
from orbit.audit.images.layers import LayerFacts, Missing, read_again, read_layer
from orbit.core.proc import own_python, run
from orbit.errors import InputError, OrbitError

SWITCH_S = 0.0005
"""How long one thread may keep the interpreter while others, which need it for microseconds, wait (default 5 ms)."""


class Request(msgspec.Struct, frozen=True, array_like=True):
    """Which layer to read."""

    path: bytes
    offset: int
    size: int
    label: str
    """What errors call it."""
    unpacked: bool
    """Give the digest of the tar stream and not of the blob."""
    threads: bool = True
    """Use several processors: for a layer that is more than one processor's share of the work."""


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """A layer that was read, or why it could not be."""

    facts: LayerFacts | None
    digest: str = ""
    """sha256 in hexadecimal."""
    codec: str = ""
    what: str = ""
    fix: str = ""


def read_blob(request: Request) -> Reply:
    """Read a layer. Raises :class:`OrbitError` when it cannot be unpacked, OSError when it cannot be read."""
    handle = os.open(request.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        codec = codec_of(os.pread(handle, min(MAGIC_BYTES, request.size), request.offset))
        facts, missing, digest = _mapped(handle, request) if codec == "none" else _streamed(handle, request)
        for _ in range(MAX_READINGS):
            if not missing:
                break
            chunks = ahead(decompressed(blob_pieces(handle, request), request.label))
            facts, missing = read_again(chunks, request.label, facts, missing)
        return Reply(facts, digest, codec)
    finally:
        os.close(handle)


def _streamed(handle: int, request: Request) -> tuple[LayerFacts, Missing, str]:
    if request.unpacked:
        unpacked = Hashing(decompressed(blob_pieces(handle, request), request.label))
        facts, missing = read_layer(ahead(unpacked), request.label)
        return facts, missing, unpacked.hexdigest()
    packed = Hashing(blob_pieces(handle, request))
    facts, missing = read_layer(ahead(decompressed(packed, request.label)), request.label)
    return facts, missing, packed.hexdigest()


def _mapped(handle: int, request: Request) -> tuple[LayerFacts, Missing, str]:
    """A plain tar is read where it lies: nothing is copied, and nothing can be missing."""
    if not request.size:
        raise InputError(f"{request.label}: empty", fix="make the image again")
    data = MappedFile(handle, 0, access=mmap.ACCESS_READ)
    data.handle = handle
    if request.offset + request.size > len(data):
        raise InputError(f"{request.label}: cut short", fix="make the image again")
    view = memoryview(data)[request.offset : request.offset + request.size]
    hashing = Hashing(view[at : at + PIECE_BYTES] for at in range(0, len(view), PIECE_BYTES))
    with ThreadPoolExecutor(1) as beside:
        done = beside.submit(lambda: collections.deque(hashing, maxlen=0))
        facts, missing = read_layer(
            (view,), request.label, whole=lambda offset, size: Window(data, request.offset + offset, size)
        )
        done.result()
    return facts, missing, hashing.hexdigest()


def blob_pieces(handle: int, request: Request) -> Iterator[bytes]:
    """The bytes of a layer as they lie on disk. Raises :class:`InputError` when they end early."""
    at, end = request.offset, request.offset + request.size
    while at < end:
        piece = os.pread(handle, min(PIECE_BYTES, end - at), at)
        if not piece:
            raise InputError(f"{request.label}: cut short", fix="make the image again")
        at += len(piece)
        yield piece


def read_apart(request: Request) -> Reply:
    """:func:`read_blob` in a process of its own. Raises :class:`InputError` when the layer cannot be read."""
    done = run(own_python(__name__), doing="reading a layer", stdin=msgspec.msgpack.encode(request))
    reply = msgspec.msgpack.decode(done.stdout, type=Reply)
    if reply.facts is None:
        raise InputError(reply.what, fix=reply.fix)
    return reply


def main() -> None:
    """Read the layer that is asked for on stdin."""
    gc.disable()
    sys.setswitchinterval(SWITCH_S)
    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Request)
    try:
        reply = read_blob(request)
    except OrbitError as error:
        reply = Reply(None, what=error.what, fix=error.fix)
    except OSError as error:
        reply = Reply(None, what=f"{request.label}: {error.strerror or error}", fix="make the image again")
    sys.stdout.buffer.write(msgspec.msgpack.encode(reply))
