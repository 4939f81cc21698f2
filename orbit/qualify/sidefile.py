"""The file beside a record: the bytes of its tensors, each content once.

A first line, then the tensors one after another, each at a multiple of 64 bytes. Where each starts is in the record.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from orbit.core.files import sha256_file, sync_folder
from orbit.errors import InputError
from orbit.qualify.records import Qualification, TensorFileId

MAGIC = b"orbit.tensors/1\n"
ALIGNMENT = 64
SUFFIX = ".tensors"


class TensorWriter:
    """Writes a tensor file beside its final place; it appears there, whole, at :meth:`finish`."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        self._file: IO[bytes] = self._partial.open("wb")
        self._file.write(MAGIC)
        self._index: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def add(self, digest: str, data: bytes | memoryview) -> None:
        """Keep ``data`` under its sha256, unless it is there."""
        if digest not in self._index:
            start = -(-self._file.tell() // ALIGNMENT) * ALIGNMENT
            self._file.write(bytes(start - self._file.tell()))
            self._file.write(data)
            self._index[digest] = (start, len(data))

    def get(self, digest: str) -> bytes:
        """The bytes added under ``digest``."""
        start, size = self._index[digest]
        self._file.flush()
        with self._partial.open("rb") as file:
            file.seek(start)
            return file.read(size)

    def finish(self) -> TensorFileId:
        """Put the file in its place and describe it."""
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        digest = sha256_file(self._partial)
        os.replace(self._partial, self._path)
        sync_folder(self._path.parent)
        return TensorFileId(file=self._path.name, bytes=size, sha256=digest, index=dict(self._index))


class TensorFile:
    """A tensor file that was checked against its record."""

    def __init__(self, path: Path, said: TensorFileId) -> None:
        """Raises :class:`InputError` for a file that is missing, cut short or not the one of the record."""
        fix = "bring the record and its .tensors file together, from one run"
        try:
            size = path.stat().st_size
        except OSError:
            raise InputError(f"{path}: not there, and a comparison needs its values", fix=fix) from None
        if size != said.bytes:
            raise InputError(f"{path}: {size} bytes, its record says {said.bytes}", fix=fix)
        if sha256_file(path) != said.sha256:
            raise InputError(f"{path}: not the file of its record (its sha256 is another)", fix=fix)
        for digest, (start, length) in said.index.items():
            if start < len(MAGIC) or length < 0 or start + length > size:
                raise InputError(f"{path}: {digest[:12]} lies outside the file", fix=fix)
        self._path, self._index = path, said.index
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._map[: len(MAGIC)] != MAGIC:
            raise InputError(f"{path}: no tensor file of this version", fix=fix)

    def get(self, digest: str) -> bytes:
        """The bytes whose sha256 is ``digest``. Raises :class:`InputError` when they are not, KeyError without any."""
        start, size = self._index[digest]
        data = self._map[start : start + size]
        if hashlib.sha256(data).hexdigest() != digest:
            raise InputError(f"{self._path}: damaged at byte {start}", fix="make the record anew")
        return data


def open_tensors(record_path: Path, record: Qualification) -> TensorFile:
    """The tensor file beside ``record_path``."""
    name = record.tensors.file
    if Path(name).name != name or not name:
        raise InputError(f"{record_path}: names a tensor file elsewhere: {name}", fix="make the record anew")
    return TensorFile(record_path.parent / name, record.tensors)
