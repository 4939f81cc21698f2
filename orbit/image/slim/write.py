"""Writing an edition: one pass over the old file, both files hashed, nothing put in place before it was read back."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from orbit.core.files import CHUNK_BYTES, from_os_error, open_regular, sync_folder
from orbit.image.slim.edition import Copy, Edition, Fill, Patch
from orbit.image.slim.facts import SlimRefused

AGAIN = "the file changed since it was planned: plan it again"
LEAVE = "leave this file as it is: name it in kernels/slim.toml, and report it"
ZEROS = bytes(CHUNK_BYTES)


class Written(NamedTuple):
    """A file that was written."""

    sha256: str
    size: int
    disk_bytes: int
    """What it takes on this file system."""


class _Source:
    """The old file, read forward once. Every byte of it enters the hash, also those that are passed over."""

    def __init__(self, file: IO[bytes], patches: Sequence[Patch], label: str) -> None:
        self._file = file
        self._patches = patches
        self.label = label
        self._next = 0
        self._done = 0  # bytes of the next patch that the last block had
        self._at = 0
        self.hash = hashlib.sha256()

    def copy(self, offset: int, size: int) -> Iterator[bytes]:
        """The ``size`` bytes at ``offset``, patched."""
        for _ in self._read(offset - self._at):
            pass
        for start, block in self._read(size):
            yield self._patched(start, block)

    def finish(self) -> str:
        """sha256 hex of the whole file, read to its end."""
        while block := self._file.read(CHUNK_BYTES):
            self.hash.update(block)
        if self._next < len(self._patches):
            raise self._lost()
        return self.hash.hexdigest()

    def _read(self, size: int) -> Iterator[tuple[int, bytes]]:
        if size < 0:
            raise SlimRefused(f"{self.label}: its pieces do not follow each other", fix=LEAVE)
        end = self._at + size
        while self._at < end:
            block = self._file.read(min(CHUNK_BYTES, end - self._at))
            if not block:
                raise SlimRefused(f"{self.label}: shorter than it was", fix=AGAIN)
            self.hash.update(block)
            start, self._at = self._at, self._at + len(block)
            yield start, block

    def _patched(self, start: int, block: bytes) -> bytes:
        end = start + len(block)
        if self._next == len(self._patches) or self._patches[self._next][0] >= end:
            return block
        new = bytearray(block)
        while self._next < len(self._patches) and self._patches[self._next][0] < end:
            at, data = self._patches[self._next]
            position = at + self._done
            if position < start:
                raise self._lost()
            part = data[self._done : self._done + end - position]
            new[position - start : position - start + len(part)] = part
            self._done += len(part)
            if self._done < len(data):
                break
            self._next, self._done = self._next + 1, 0
        return bytes(new)

    def _lost(self) -> SlimRefused:
        return SlimRefused(f"{self.label}: a field that must change lies in bytes that go", fix=LEAVE)


def write_edition(edition: Edition, source: Path, out: Path, *, sha256: str, check: Callable[[Path], None]) -> Written:
    """Write ``edition`` of ``source`` to ``out``, which may be the same path: other hard links keep the old file.

    ``check`` is called with the finished file before it takes its place. Raises :class:`SlimRefused` when ``source`` is
    not the file with ``sha256``; whatever is raised, ``out`` is what it was before.
    """
    partial = out.with_name(f".{out.name}.{os.getpid()}.{threading.get_native_id()}.partial")
    try:
        with open_regular(source) as old, open(partial, "xb", buffering=0) as new:
            mode = stat.S_IMODE(os.fstat(old.fileno()).st_mode)
            digest = _write(edition, _Source(old, edition.patches, str(source)), new, sha256)
            os.fsync(new.fileno())
            facts = os.fstat(new.fileno())
        os.chmod(partial, mode)
        check(partial)
        os.replace(partial, out)
    except OSError as error:
        raise from_os_error(error, f"writing {out}") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    sync_folder(out.parent)
    return Written(digest, facts.st_size, facts.st_blocks * 512)


def _write(edition: Edition, source: _Source, new: IO[bytes], sha256: str) -> str:
    """Write all pieces; sha256 hex of what was written."""
    digest = hashlib.sha256()
    size = 0

    def put(block: bytes) -> None:
        nonlocal size
        digest.update(block)
        view = memoryview(block)
        while view:
            view = view[new.write(view) :]
        size += len(block)

    for piece in edition.pieces:
        if isinstance(piece, Copy):
            for block in source.copy(piece.offset, piece.size):
                put(block)
        elif isinstance(piece, Fill):
            for start in range(0, piece.size, CHUNK_BYTES):
                digest.update(memoryview(ZEROS)[: piece.size - start])
            size += piece.size
            new.seek(size)  # a hole: takes no room, and reads as zeros
        else:
            put(piece.data)
    new.truncate(size)
    if source.finish() != sha256:
        raise SlimRefused(f"{source.label}: not the file that was planned", fix=AGAIN)
    if size != edition.size:
        raise SlimRefused(f"{source.label}: {size} bytes were written instead of {edition.size}", fix=LEAVE)
    return digest.hexdigest()
