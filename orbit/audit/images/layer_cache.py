"""Remember the facts of image layers by the digest of the layer, and which file was found to have which digest.

A layer never changes: its digest names its bytes. What can change is the file that is said to hold it, so a digest is
believed again only while the file is as it was: device, inode, size, modification and change time, as in
:mod:`orbit.audit.installed.fact_cache`, and not too fresh.

A blob of a layout, a file called by its own digest, is known by device, inode, size and modification time alone: every
layout that is built, and every one that is removed, is a hard link more or less and changes the change time of blobs
that nobody wrote to; four gigabytes would be read again each time. So a blob that was edited in place by somebody who
then restored its modification time is not noticed here. What is told stays true of the digest, which is what an image
is known by; and whoever carries the blob further (``push``, ``load``, ``export``, ``smoke``, every engine) hashes what
it carries, as ``orbit image inspect --verify`` does, and refuses it.

The facts are of the readers that wrote them: their source
is part of the folder's name. Both kinds of file carry their own checksum, only save time, and are made anew when
damaged.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import msgspec

from orbit.audit.binary import sparse
from orbit.audit.files import keeper, scan, texts
from orbit.audit.images import layers, tar_stream
from orbit.audit.images.layers import LayerFacts
from orbit.audit.installed import object_cache
from orbit.audit.installed.fact_cache import SETTLE_NS, read_checked, write_checked
from orbit.core.files import remove_tree
from orbit.errors import InputError
from orbit.image.oci import DIGEST

READERS = (keeper, layers, scan, sparse, tar_stream, texts)


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A digest that a part of a file was found to have."""

    stamp: tuple[int, ...]
    digest: str
    """sha256 in hexadecimal."""
    codec: str


class LayerCache:
    """The remembered layers in ``folder``."""

    def __init__(self, folder: Path) -> None:
        state = hashlib.sha256(object_cache.readers_hash().encode())
        for module in READERS:
            assert module.__file__ is not None
            state.update(Path(module.__file__).read_bytes())
        self._root = folder / "layers"
        self._folder = self._root / state.hexdigest()[:16]

    def seen(self, path: Path, offset: int, size: int) -> Seen | None:
        """What ``size`` bytes at ``offset`` of the file were found to be; None when it changed or is not known."""
        try:
            stamp = _stamp(path)
            data = read_checked(self._seen_file(path, stamp, offset, size))
            found = msgspec.msgpack.decode(data, type=Seen) if data is not None else None
        except (msgspec.DecodeError, OSError):
            return None
        return found if found is not None and found.stamp == stamp else None

    def remember(self, path: Path, offset: int, size: int, digest: str, codec: str) -> None:
        """The digest of a part of a file, unless the file may still be changing. Raises OSError."""
        stamp = _stamp(path)
        if max(stamp[3:]) < time.time_ns() - SETTLE_NS:
            write_checked(
                self._seen_file(path, stamp, offset, size), msgspec.msgpack.encode(Seen(stamp, digest, codec))
            )

    def load(self, digest: str) -> LayerFacts | None:
        """The facts of the layer with this digest."""
        data = read_checked(self._folder / f"{digest}.facts")
        try:
            return layers.decode(data) if data is not None else None
        except InputError:
            return None

    def save(self, digest: str, facts: LayerFacts) -> None:
        """Remember the facts of a layer; those of other versions of the readers go. Raises OSError."""
        if not self._folder.is_dir() and self._root.is_dir():
            for other in self._root.iterdir():
                if other.is_dir() and other != self._folder:
                    remove_tree(other)
        write_checked(self._folder / f"{digest}.facts", layers.encode(facts))

    def _seen_file(self, path: Path, stamp: tuple[int, ...], offset: int, size: int) -> Path:
        place = f"{stamp[0]}:{stamp[1]}" if _is_blob(path) else os.path.realpath(path)
        name = f"{place}\0{offset}\0{size}".encode("utf-8", "surrogateescape")
        return self._folder / f"{hashlib.sha256(name).hexdigest()[:32]}.seen"


def _is_blob(path: Path) -> bool:
    """Whether a file is called by its digest, as blobs of a layout are."""
    return path.parent.name == "sha256" and DIGEST.fullmatch(f"sha256:{path.name}") is not None


def _stamp(path: Path) -> tuple[int, ...]:
    """What a file is known by: device, inode, size, modification time; and change time, but for blobs."""
    info = os.stat(path)
    known = info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns
    return known if _is_blob(path) else (*known, info.st_ctime_ns)
