"""Unpack one layer into an empty folder, trusting nothing in it.

A layer is a tar stream. Nothing may be written outside the folder, so a member is refused when its name is absolute or
climbs, when a parent is not a real folder this very layer made, when a hard link names anything but a file of this
layer, when a relative symbolic link climbs above the root, or when it is a device. Whiteouts (OCI image-spec, "Layer
Filesystem Changeset") are read, not made.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from orbit.core.files import CHUNK_BYTES
from orbit.core.records import Record
from orbit.errors import InputError
from orbit.image.blob import verified_tar
from orbit.image.damage import blame
from orbit.image.oci import ImageLayer

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
HOLE_BYTES = 64 << 10
ZEROS = bytes(HOLE_BYTES)
FIX = "an image made by orbit has no such member: make it again, and do not run this one"


class LayerTree(Record, frozen=True, kw_only=True):
    """What an unpacked layer holds besides its files."""

    entries: int
    whiteouts: tuple[str, ...]
    """Paths of lower layers it removes."""
    opaque: tuple[str, ...]
    """Folders whose lower content it hides."""
    closed: tuple[str, ...]
    """Paths whose mode does not let every user read them (folders: read and enter)."""


class _Stream(io.RawIOBase):
    """Chunks of bytes as a readable stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._chunks, None)
            if piece is None:
                return 0
            self._rest = piece
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def as_file(chunks: Iterator[bytes]) -> io.BufferedReader:
    """Chunks of bytes as a file that :mod:`tarfile` can stream from."""
    return io.BufferedReader(_Stream(chunks), CHUNK_BYTES)


def unpack_layer(blob: Path, layer: ImageLayer, dest: Path, *, as_root: bool) -> LayerTree:
    """Unpack ``blob`` into the new folder ``dest``; with ``as_root`` owners are kept, else all belongs to the caller.

    Raises :class:`InputError` for an unsafe member or a broken stream and :class:`DamagedImage` when the stream is not
    the one the layer's diff id names.
    """
    dest.mkdir(mode=0o755)
    reader = io.BufferedReader(_Stream(verified_tar(blob, layer.codec, layer.diff_id)), CHUNK_BYTES)
    unpacker = Unpacker(dest, str(blob), as_root=as_root)
    try:
        with tarfile.open(fileobj=reader, mode="r|") as archive:
            for member in archive:
                unpacker.add(archive, member)
    except tarfile.TarError as error:
        blame(blob, layer=layer.name)
        raise InputError(f"{blob}: the layer is no tar stream: {error}", fix="make the image again") from None
    while reader.read(CHUNK_BYTES):
        pass  # what follows the end marker belongs to the digest, which is compared at the very end
    return unpacker.finish()


def _copy_with_holes(source: IO[bytes], file: io.FileIO) -> int:
    """Copy all of ``source``; zeros of a whole block become holes, which the disk does not hold. Returns the bytes."""
    size = 0
    while piece := source.read(CHUNK_BYTES):
        start = 0  # of what has to be written
        view = memoryview(piece)
        for at in range(0, len(piece), HOLE_BYTES):
            block = view[at : at + HOLE_BYTES]
            if block == ZEROS[: len(block)]:
                _write(file, view[start:at])
                file.seek(len(block), os.SEEK_CUR)
                start = at + len(block)
        _write(file, view[start:])
        size += len(piece)
    file.truncate(size)
    return size


def _write(file: io.FileIO, data: memoryview) -> None:
    while data:
        data = data[file.write(data) :]


class Unpacker:
    """Writes members below one folder and remembers what it made, so no name can lead through a link."""

    def __init__(self, dest: Path, where: str, *, as_root: bool) -> None:
        self.dest = dest
        self.where = where
        self.as_root = as_root
        self.folders: dict[str, tarfile.TarInfo | None] = {"": None}
        self.files: set[str] = set()
        self.others: set[str] = set()
        self.whiteouts: list[str] = []
        self.opaque: list[str] = []
        self.closed: list[str] = []

    def add(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Write one member."""
        name = self._name(member)
        if not name:
            if member.isdir():
                return
            self._refuse(member, "has no name")
        parent, base = os.path.split(name)
        if base.startswith(WHITEOUT):
            self._whiteout(member, parent, base)
            return
        self._parents(member, parent)
        if member.isdir():
            self._folder(member, name)
            return
        if name in self.folders or name in self.files or name in self.others:
            self._refuse(member, "appears twice")
        if member.issym():
            self._symlink(member, name)
        elif member.islnk():
            self._hardlink(member, name)
        elif member.isreg():
            self._file(archive, member, name)
        else:
            self._refuse(member, "is a device, a pipe or of an unknown type")

    def finish(self) -> LayerTree:
        """Set owners and modes of folders (deepest first, so that a closed one does not lock us out)."""
        for name, member in sorted(self.folders.items(), reverse=True):
            if member is not None:
                self._dress(name, member, 0o555)
        return LayerTree(
            entries=len(self.folders) - 1 + len(self.files) + len(self.others),
            whiteouts=tuple(self.whiteouts),
            opaque=tuple(self.opaque),
            closed=tuple(sorted(self.closed)),
        )

    def _name(self, member: tarfile.TarInfo) -> str:
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if member.name.startswith("/") or ".." in parts:
            self._refuse(member, "leads out of the image")
        return "/".join(parts)

    def _parents(self, member: tarfile.TarInfo, parent: str) -> None:
        if parent in self.folders:
            return
        if parent in self.files or parent in self.others:
            self._refuse(member, f"lies below {parent}, which is not a folder")
        self._parents(member, os.path.dirname(parent))
        os.mkdir(self.dest / parent, 0o755)
        self.folders[parent] = None

    def _folder(self, member: tarfile.TarInfo, name: str) -> None:
        if name in self.files or name in self.others:
            self._refuse(member, "appears twice")
        if name not in self.folders:
            os.mkdir(self.dest / name, 0o755)
        self.folders[name] = member

    def _symlink(self, member: tarfile.TarInfo, name: str) -> None:
        target = member.linkname
        if not target.startswith("/"):
            depth = name.count("/")
            for part in target.split("/"):
                depth += -1 if part == ".." else 0 if part in ("", ".") else 1
                if depth < 0:
                    self._refuse(member, f"links to {target}, above the image's root")
        path = self.dest / name
        os.symlink(target, path)
        if self.as_root:
            os.chown(path, member.uid, member.gid, follow_symlinks=False)
        self.others.add(name)

    def _hardlink(self, member: tarfile.TarInfo, name: str) -> None:
        target = os.path.normpath(member.linkname)
        if target not in self.files:
            self._refuse(member, f"is a hard link to {member.linkname}, which is no file of this layer")
        os.link(self.dest / target, self.dest / name, follow_symlinks=False)
        self.files.add(name)

    def _file(self, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        source = archive.extractfile(member)
        assert source is not None
        with open(self.dest / name, "xb", buffering=0) as file:
            size = _copy_with_holes(source, file)
            if size != member.size:
                self._refuse(member, f"has {size} of {member.size} bytes")
        self.files.add(name)
        self._dress(name, member, 0o444)

    def _dress(self, name: str, member: tarfile.TarInfo, needed: int) -> None:
        path = self.dest / name
        if self.as_root:
            os.chown(path, member.uid, member.gid)
        mode = member.mode & 0o7777
        own = 0o700 if member.isdir() else 0o600  # without root, whoever unpacked must still be able to work with it
        os.chmod(path, mode if self.as_root else mode & 0o777 | own)
        if mode & needed & 0o005 != needed & 0o005:
            self.closed.append(name)

    def _whiteout(self, member: tarfile.TarInfo, parent: str, base: str) -> None:
        if base == OPAQUE:
            self.opaque.append(parent)
            return
        hidden = base.removeprefix(WHITEOUT)
        if hidden in ("", ".", "..") or not member.isreg():
            self._refuse(member, "is not a whiteout of anything")
        self.whiteouts.append(os.path.join(parent, hidden))

    def _refuse(self, member: tarfile.TarInfo, why: str) -> None:
        raise InputError(f"{self.where}: member {member.name!r} {why}", fix=FIX)
