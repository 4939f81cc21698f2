"""The lowest layers of an image: a root file system of locked Debian packages, or an image named by its digest.

::

    base = make_base(name, store, progress=progress)    from the store, or made; the only step that may use the network
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orbit.core.console import Progress
from orbit.core.files import CHUNK_BYTES
from orbit.core.records import Record, dump_json, load_json
from orbit.core.store import Store
from orbit.image.base.definition import ARCHITECTURE, BaseDefinition, load_base
from orbit.image.base.fetch import find_places, obtain_packages, require_places
from orbit.image.base.lock import BaseLock, read_base_lock
from orbit.image.base.make import Contents, make_root
from orbit.image.base.pinned import named_layers, obtain_image
from orbit.image.base.root import DebianPackage
from orbit.image.layout_writer import NamedLayer
from orbit.image.oci import Layout
from orbit.image.registry.pull import pull_layout
from orbit.image.tar import EPOCH_S

__all__ = ["Base", "BaseDefinition", "DebianPackage", "base_chunks", "load_base", "make_base"]

FORMAT = 4
"""Raised when equal locks and definitions come out in other bytes."""
KIND = "base"


class Base(Record, frozen=True, kw_only=True):
    """A finished base."""

    key: str
    """Content key of the lock and the definition, or of the image."""
    tar: Path | None
    """The root file system, uncompressed; None for an image."""
    sha256: str
    """Of ``tar``, or the digest of the image (without its algorithm)."""
    files: int
    packages: tuple[DebianPackage, ...]
    reused: bool
    layers: tuple[NamedLayer, ...] = ()
    """Of an image, from the lowest up: the lowest layers of whatever stands on it. Empty when there is ``tar``."""


def make_base(name: str, store: Store, *, progress: Progress) -> Base:
    """The base of that name: from the store, or made anew of the packages its lock lists.

    Raises :class:`InputError` for a stale lock and for a package with other bytes, :class:`MissingError` for packages
    that cannot be had and without mmdebstrap. A base that is an image is got from a registry or a folder; see
    :func:`orbit.image.base.pinned.obtain_image`.
    """
    definition = load_base(name)
    if definition.image:
        return _image_base(definition, store, progress)
    lock = read_base_lock(name, definition)

    def work(place: Path) -> dict[str, str | int]:
        debs = obtain_packages(lock, store, find_places(definition), progress, name=name)
        progress.step(f"base: installing {len(lock.packages)} packages of Debian {definition.suite}")
        target = place / "root" / "rootfs.tar"
        target.parent.mkdir()
        contents = make_root(definition, lock, debs, target, store)
        dump_json(place / "base.json", contents)
        return {"sha256": contents.sha256, "files": contents.files, "packages": len(contents.packages)}

    entry = store.obtain(KIND, base_inputs(definition, lock), work)
    contents = load_json(entry.path / "base.json", Contents)
    return Base(
        key=entry.record.key,
        tar=entry.path / "root" / "rootfs.tar",
        sha256=contents.sha256,
        files=contents.files,
        packages=contents.packages,
        reused=entry.reused,
    )


def require_base(name: str, store: Store) -> None:
    """Raise :class:`MissingError` when the base of that name is not in the store and its packages cannot be had; for
    whoever does something long before :func:`make_base`."""
    definition = load_base(name)
    if definition.image:
        return
    lock = read_base_lock(name, definition)
    if store.find(KIND, base_inputs(definition, lock)) is None:
        require_places(lock, store, find_places(definition), name=name)


def _image_base(definition: BaseDefinition, store: Store, progress: Progress) -> Base:
    def pull(reference: str, out: Path, progress: Progress) -> Layout:
        return pull_layout(reference, out, progress=progress)

    entry, pinned = obtain_image(definition.image, store, progress, pull)
    return Base(
        key=entry.record.key,
        tar=None,
        sha256=pinned.digest.removeprefix("sha256:"),
        files=sum(layer.files for layer in pinned.layers),
        packages=pinned.packages,
        reused=entry.reused,
        layers=named_layers(entry, pinned),
    )


def base_inputs(definition: BaseDefinition, lock: BaseLock) -> dict[str, object]:
    """Everything that decides the bytes of a root file system: nothing of the machine, the archive or the day."""
    return {
        "format": FORMAT,
        "architecture": ARCHITECTURE,
        "suite": definition.suite,
        "packages": lock.content,
        "keep": list(definition.keep),
        "drop": list(definition.drop),
        "keep_links": list(definition.keep_links),
        "files": definition.files,
        "epoch": EPOCH_S,
    }


def base_chunks(base: Base) -> Iterator[bytes]:
    """The tar stream of a base that is no image."""
    assert base.tar is not None
    with open(base.tar, "rb", buffering=0) as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece
