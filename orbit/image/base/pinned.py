"""An image as the base: named by its digest, its layers verified and taken as they are."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from orbit.core.amounts import format_bytes
from orbit.core.console import Progress
from orbit.core.files import CHUNK_BYTES, remove_tree, require_free, sha256_file
from orbit.core.records import Record, dump_json, load_json
from orbit.core.store import Entry, Store
from orbit.errors import InputError
from orbit.image.base.control import paragraphs
from orbit.image.base.definition import ARCHITECTURE, PINNED
from orbit.image.base.root import DebianPackage, package_of, read_status
from orbit.image.blob import LayerBlob, verified_tar
from orbit.image.damage import DamagedImage
from orbit.image.layout_writer import NamedLayer
from orbit.image.oci import ImageLayer, Layout, read_layout
from orbit.image.rootfs_layer import OPAQUE, WHITEOUT, as_file

FORMAT = 1
KIND = "base-image"
RECORD = "image.json"
ON_DISK = "oci:"
DATABASE = "var/lib/dpkg/"
STATUS_MAX_BYTES = 64 << 20

type Pull = Callable[[str, Path, Progress], Layout]
"""Gets the image of a reference with a digest into the new layout at a path, every byte checked."""


class PinnedImage(Record, frozen=True, kw_only=True):
    """A base image in the store."""

    digest: str
    """As it was asked for."""
    layers: tuple[LayerBlob, ...]
    """From the lowest up."""
    packages: tuple[DebianPackage, ...]
    """Of dpkg's database inside; empty when there is none."""


def obtain_image(reference: str, store: Store, progress: Progress, pull: Pull) -> tuple[Entry, PinnedImage]:
    """The image of ``NAME@sha256:...`` or ``oci:FOLDER@sha256:...``: from the store, or got and verified.

    Only the digest decides; where the image was is not part of it. Raises :class:`InputError` for another image, or
    one for other machines, :class:`DamagedImage` for a damaged layer, and whatever ``pull`` raises.
    """
    match = PINNED.fullmatch(reference)
    if match is None:
        raise InputError(f"{reference!r} has no digest", fix="write NAME@sha256:...")
    digest = match["digest"]

    def work(place: Path) -> dict[str, Any]:
        if match["place"].startswith(ON_DISK):
            source = Path(match["place"].removeprefix(ON_DISK))
            progress.step(f"base: taking the image in {source}")
            layout, cleanup = _on_disk(source, digest), None
        else:
            # beside the entries, so that a pull that was killed is continued
            cleanup = store.root / "downloads" / f"image-{digest.removeprefix('sha256:')}"
            layout = pull(reference, cleanup, progress)
        _check_machine(layout, reference)
        pinned = _take(layout, digest, place, progress)
        if cleanup:
            remove_tree(cleanup)
        dump_json(place / RECORD, pinned)
        return {"layers": len(pinned.layers), "packages": len(pinned.packages)}

    entry = store.obtain(KIND, {"format": FORMAT, "digest": digest}, work)
    return entry, load_json(entry.path / RECORD, PinnedImage)


def named_layers(entry: Entry, pinned: PinnedImage) -> tuple[NamedLayer, ...]:
    """The layers as files of the store, which has compared them with their sha256."""
    return tuple(
        NamedLayer(
            name="base" if number == 1 else f"base-{number}",
            blob=blob,
            path=entry.path / blob.digest.removeprefix("sha256:"),
        )
        for number, blob in enumerate(pinned.layers, 1)
    )


def _on_disk(source: Path, digest: str) -> Layout:
    layout = read_layout(source)
    if layout.digest != digest:
        raise InputError(
            f"{source}: holds {layout.digest}, the definition says {digest}",
            fix="it is another image: name the right folder, or write its digest into the definition",
        )
    return layout


def _check_machine(layout: Layout, reference: str) -> None:
    machine = (layout.config.os, layout.config.architecture)
    if machine != ("linux", ARCHITECTURE):
        raise InputError(f"{reference}: an image for {'/'.join(machine)}", fix=f"name one for linux/{ARCHITECTURE}")


def _take(layout: Layout, digest: str, place: Path, progress: Progress) -> PinnedImage:
    """Copy and verify every layer: its bytes by their digest, its content by its diff id.

    They lie at the top of the entry: the store hashes them there whenever they were touched.
    """
    size = sum(layer.size for layer in layout.layers)
    require_free(place, size, "the base image")
    progress.step(f"base: {len(layout.layers)} layers, {format_bytes(size)}")
    database: dict[str, str] = {}
    blobs = []
    for layer in layout.layers:
        target = place / layer.digest.removeprefix("sha256:")
        shutil.copyfile(layout.blob(layer), target)
        if f"sha256:{sha256_file(target)}" != layer.digest:
            raise DamagedImage(layout.path, layer.digest, layer=layer.name)
        target.chmod(0o444)
        with open(target, "rb") as file:
            os.fsync(file.fileno())
        files, tar_bytes = _read_layer(target, layer, database)
        blobs.append(
            LayerBlob(
                digest=layer.digest,
                diff_id=layer.diff_id,
                size=layer.size,
                tar_bytes=tar_bytes,
                files=files,
                codec=layer.codec,
            )
        )
    return PinnedImage(digest=digest, layers=tuple(blobs), packages=_packages(database))


def _read_layer(path: Path, layer: ImageLayer, database: dict[str, str]) -> tuple[int, int]:
    """(members that are no folders, bytes of the tar stream); ``database`` becomes dpkg's as this layer leaves it."""
    size = 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for chunk in verified_tar(path, layer.codec, layer.diff_id):
            size += len(chunk)
            yield chunk

    reader = as_file(counted())
    files = 0
    gone: set[str] = set()
    new: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=reader, mode="r|") as archive:
            for member in archive:
                files += not member.isdir()
                name = os.path.normpath(member.name).lstrip("/")
                parent, _, last = name.rpartition("/")
                if last == OPAQUE:
                    gone.add(f"{parent}/")
                elif last.startswith(WHITEOUT):
                    gone.add(f"{parent}/{last.removeprefix(WHITEOUT)}".lstrip("/"))
                elif _is_database(name) and member.isreg() and member.size <= STATUS_MAX_BYTES:
                    handle = archive.extractfile(member)
                    new[name] = handle.read().decode(errors="replace") if handle else ""
    except tarfile.TarError as error:
        raise InputError(f"{path}: the layer is no tar stream: {error}", fix="this image cannot be a base") from None
    while reader.read(CHUNK_BYTES):
        pass  # what follows the end marker belongs to the digest, which is compared at the very end
    for name in [name for name in database if any(name == each or name.startswith(_below(each)) for each in gone)]:
        del database[name]
    database.update(new)
    return files, size


def _below(name: str) -> str:
    return name if name.endswith("/") else f"{name}/"


def _is_database(name: str) -> bool:
    """``status``, or one of the files a distroless image has in its place, one for each package."""
    if name == f"{DATABASE}status":
        return True
    return name.startswith(f"{DATABASE}status.d/") and not name.endswith(".md5sums")


def _packages(database: dict[str, str]) -> tuple[DebianPackage, ...]:
    found = {}
    for name, text in sorted(database.items()):
        if name == f"{DATABASE}status":
            packages = read_status(text)
        else:
            packages = tuple(package_of(fields) for fields in paragraphs(text.splitlines()) if "Version" in fields)
        found.update({(package.name, package.architecture): package for package in packages})
    return tuple(found[key] for key in sorted(found))
