"""Where an image is and what it says of itself: OCI layouts and docker archives, as folders, tar files or streams.

:func:`orbit.image.oci.read_layout` reads the layouts that Orbit writes and runs, strictly: one OCI image, nothing else.
Here anything that other tools write is read as well: several platforms, nested indexes, docker's media types, ``null``
in a configuration, the old and the new form of ``docker save``. The documents are those of the OCI image specification
1.1 and of docker's image specification 1.2 (``manifest.json``). Digests and sizes are compared wherever they are
stated.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from orbit.audit.binary.elf import MappedFile
from orbit.audit.facts import ImageFacts, printable
from orbit.audit.images.tar_stream import TarStream, clean
from orbit.core.files import open_regular
from orbit.errors import InputError
from orbit.image.damage import DamagedImage
from orbit.image.oci import DIGEST, DOCUMENT_BYTES_MAX, NAME_KEY, Descriptor

MAX_DEPTH = 4
"""Indexes in indexes."""
MAX_LAYERS = 1000
MAX_HOPS = 8
HISTORY = "orbit: "
"""What Orbit writes before a layer's name in the history of an image."""
HEX_NAME = re.compile(r"(?:^|/)([0-9a-f]{64})(?:\.json)?$")
NOT_AN_IMAGE = "give an OCI layout, or an archive made by `docker save`, `podman save` or `skopeo copy`"
AGAIN = "get the image again: it was changed or cut short"


class Platform(msgspec.Struct, frozen=True, kw_only=True):
    """What an image of an index is for."""

    architecture: str = ""
    os: str = ""


class Described(Descriptor, frozen=True, kw_only=True, rename="camel"):
    """A reference to a manifest, in an index."""

    platform: Platform | None = None


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """``index.json``, or an index named by one."""

    manifests: list[Described]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest, in OCI's or docker's spelling."""

    config: Descriptor
    layers: list[Descriptor]


class Saved(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """One image of docker's ``manifest.json``."""

    config: str
    layers: list[str]
    repo_tags: list[str] | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """How a container is started; docker writes ``null`` for what is not set."""

    env: list[str] | None = None
    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    working_dir: str | None = None
    user: str | None = None
    labels: dict[str, str] | None = None


class RootFs(msgspec.Struct, frozen=True, kw_only=True):
    """Digests of the unpacked layers."""

    diff_ids: list[str] | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an image's history."""

    created_by: str | None = None
    empty_layer: bool | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """An image configuration."""

    architecture: str = ""
    config: Run | None = None
    rootfs: RootFs = RootFs()
    history: list[Step] | None = None


@dataclass(frozen=True, slots=True)
class LayerRef:
    """One layer as the documents name it."""

    name: str
    """Its file in the archive."""
    digest: str
    """``sha256:...`` of that file; empty when no document says it."""
    diff_id: str
    """``sha256:...`` of the tar stream in it."""
    size: int
    """Bytes of the file, -1 when no document says it."""
    title: str = ""
    """What people know it by: its name in an image of Orbit's, else the command that made it; empty when nothing says
    it."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image as its documents describe it."""

    facts: ImageFacts
    variables: Mapping[str, str]
    layers: tuple[LayerRef, ...]
    """Lowest first."""
    config: bytes = b"{}"
    """The configuration as it is stored."""
    manifest: bytes = b"{}"
    """The manifest as it is stored; an empty object for archives of docker, which have none."""


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a file."""

    path: Path
    offset: int
    size: int


class Archive(Protocol):
    """Files by name, whatever holds them."""

    label: str

    def document(self, name: str) -> bytes | None:
        """The content of a small file; None when it is not there. Raises :class:`InputError` when it is too long."""


class FolderArchive:
    """A layout that is a folder."""

    def __init__(self, path: Path) -> None:
        self.label = printable(str(path))
        self._path = path

    def place(self, name: str) -> Place | None:
        """Where a file is; None when it is not there or no regular file."""
        path = self._path / name
        try:
            info = os.stat(path)
        except (OSError, ValueError):
            return None
        return Place(path, 0, info.st_size) if stat.S_ISREG(info.st_mode) else None

    def document(self, name: str) -> bytes | None:
        """See :class:`Archive`."""
        place = self.place(name)
        return None if place is None else _read(place, f"{self.label}: {name}")


class TarArchive:
    """A tar file on disk: only the headers of its members are looked at. Raises :class:`InputError`."""

    def __init__(self, path: Path) -> None:
        self.label = printable(str(path))
        self._path = path
        self._places: dict[str, Place] = {}
        self._links: dict[str, str] = {}
        with open_regular(path) as file:
            if not os.fstat(file.fileno()).st_size:
                raise InputError(f"{self.label}: empty", fix=NOT_AN_IMAGE)
            data = MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
        for member in TarStream((memoryview(data),), self.label):
            if stat.S_ISREG(member.mode):
                self._places[member.path] = Place(path, member.offset, member.size)
            elif member.target:
                self._links[member.path] = link_target(member.path, member.target, hard=not member.mode)

    def place(self, name: str) -> Place | None:
        """Where a file is; links inside the archive are followed (old archives share layers by links)."""
        found = follow(name, self._links)
        return self._places.get(found) if found is not None else None

    def document(self, name: str) -> bytes | None:
        """See :class:`Archive`."""
        place = self.place(name)
        return None if place is None else _read(place, f"{self.label}: {name}")


def link_target(path: str, target: str, *, hard: bool) -> str:
    """What a link in an archive names, as a name in it; empty when it leads out."""
    whole = target if hard or target.startswith("/") else os.path.normpath(os.path.join(os.path.dirname(path), target))
    return clean(whole) or ""


def follow(name: str, links: Mapping[str, str]) -> str | None:
    """The name of the file behind ``name``; None for links that go in a circle or lead out."""
    found = clean(name)
    for _ in range(MAX_HOPS):
        if not found or found not in links:
            return found
        found = links[found]
    return None


def read_image_ref(archive: Archive, reference: str, architecture: str) -> tuple[ImageRef, str]:
    """(the image in ``archive``, of several platforms the one for linux on ``architecture``; a remark on that choice).

    Raises :class:`InputError` when there is none or several could be meant, :class:`DamagedImage` for documents that
    are damaged.
    """
    if (top := archive.document("index.json")) is not None:
        return _from_index(archive, top, reference, architecture)
    if (top := archive.document("manifest.json")) is not None:
        return _from_saved(archive, top, reference)
    raise InputError(f"{archive.label}: neither index.json nor manifest.json in it: not an image", fix=NOT_AN_IMAGE)


def _from_index(archive: Archive, top: bytes, reference: str, architecture: str) -> tuple[ImageRef, str]:
    wanted, remark = _choose(archive, top, architecture)
    where = f"{archive.label}: manifest {wanted.digest}"
    manifest_bytes = _blob(archive, wanted)
    manifest = _decode(manifest_bytes, Manifest, where)
    documents = _blob(archive, manifest.config), manifest_bytes
    layers = [
        (_blob_name(archive, item), item.digest, item.size, item.annotations.get(NAME_KEY, ""))
        for item in manifest.layers
    ]
    return _image(archive, reference, wanted.digest, documents, layers), remark


def _choose(archive: Archive, top: bytes, architecture: str) -> tuple[Described, str]:
    """(the manifest that is meant, a remark when it was one of several)."""
    found = _manifests(archive, top, f"{archive.label}: index.json", MAX_DEPTH)
    known = [item for item in found if item.platform is None or item.platform.os != "unknown"]
    fitting = [
        item
        for item in known
        if item.platform is None
        or (item.platform.os in ("", "linux") and item.platform.architecture in ("", architecture))
    ]
    if len(fitting) == 1:
        others = len(known) - 1
        return fitting[0], f"linux/{architecture} chosen of {others + 1} platforms" if others else ""
    listed = ", ".join(sorted({_name(item) for item in (fitting or known)})[:8])
    if not fitting:
        raise InputError(
            f"{archive.label}: no image for linux/{architecture} in it (there is: {listed or 'nothing'})",
            fix="get the image for that platform: docker pull --platform, skopeo copy --override-arch",
        )
    raise InputError(
        f"{archive.label}: {len(fitting)} images for linux/{architecture} in it: {listed}",
        fix="give a layout with one image: skopeo copy oci:LAYOUT:NAME oci:ONE",
    )


def _name(item: Described) -> str:
    platform = f"{item.platform.os}/{item.platform.architecture}" if item.platform else ""
    return item.annotations.get("org.opencontainers.image.ref.name", "") or platform or item.digest


def _manifests(archive: Archive, data: bytes, where: str, depth: int) -> list[Described]:
    """The manifests of an index and of the indexes in it, each once."""
    found: dict[str, Described] = {}
    for item in _decode(data, Index, where).manifests:
        if not item.media_type.endswith(("image.index.v1+json", "manifest.list.v2+json")):
            found.setdefault(item.digest, item)
            continue
        if not depth:
            raise InputError(f"{where}: indexes in indexes", fix=NOT_AN_IMAGE)
        inner = f"{archive.label}: index {item.digest}"
        for below in _manifests(archive, _blob(archive, item), inner, depth - 1):
            found.setdefault(below.digest, below)
    return list(found.values())


def _from_saved(archive: Archive, top: bytes, reference: str) -> tuple[ImageRef, str]:
    images = _decode(top, list[Saved], f"{archive.label}: manifest.json")
    if len(images) != 1:
        names = ", ".join(name for image in images for name in image.repo_tags or ())
        raise InputError(
            f"{archive.label}: {len(images)} images in it ({names or 'without names'})", fix="save one image alone"
        )
    (image,) = images
    config_bytes = archive.document(image.config)
    if config_bytes is None:
        raise InputError(f"{archive.label}: {image.config} is missing, and named by manifest.json", fix=AGAIN)
    found = hashlib.sha256(config_bytes).hexdigest()
    stated = HEX_NAME.search(image.config)
    if stated is not None and stated[1] != found:
        raise DamagedImage(archive.label, f"sha256:{stated[1]}")
    layers = []
    for name in image.layers:
        blob = name.removeprefix("blobs/sha256/")
        layers.append((name, f"sha256:{blob}" if blob != name and DIGEST.fullmatch(f"sha256:{blob}") else "", -1, ""))
    return _image(archive, reference, f"sha256:{found}", (config_bytes, b"{}"), layers), ""


def _image(
    archive: Archive,
    reference: str,
    digest: str,
    documents: tuple[bytes, bytes],
    layers: Sequence[tuple[str, str, int, str]],
) -> ImageRef:
    """The image of ``documents`` (configuration, manifest) and layers: file, digest, size, name where there is one."""
    config = _decode(documents[0], Config, f"{archive.label}: configuration of {digest}")
    diff_ids = config.rootfs.diff_ids or []
    if len(diff_ids) != len(layers) or len(layers) > MAX_LAYERS:
        raise InputError(f"{archive.label}: {len(layers)} layers, but {len(diff_ids)} diff ids", fix=AGAIN)
    for diff_id in diff_ids:
        check_digest(archive, diff_id)
    run = config.config or Run()
    facts = ImageFacts(
        reference=reference,
        digest=digest,
        user=run.user or "",
        entrypoint=tuple(run.entrypoint or ()),
        command=tuple(run.cmd or ()),
        working_dir=run.working_dir or "",
        labels=run.labels or {},
        architecture=config.architecture,
        layers=tuple(diff_ids),
    )
    variables = dict(item.split("=", 1) for item in run.env or () if "=" in item)
    steps = [step.created_by or "" for step in config.history or () if not step.empty_layer]
    made_by = steps if len(steps) == len(layers) else [""] * len(layers)
    refs = tuple(
        LayerRef(name, found, diff_id, size, title or step.removeprefix(HISTORY))
        for (name, found, size, title), diff_id, step in zip(layers, diff_ids, made_by, strict=True)
    )
    return ImageRef(facts, variables, refs, *documents)


def check_digest(archive: Archive, digest: str) -> None:
    """Raise :class:`InputError` unless ``digest`` is one that can be compared."""
    if not DIGEST.fullmatch(digest):
        raise InputError(f"{archive.label}: digest {digest[:80]!r} is not sha256:<64 hex digits>", fix=NOT_AN_IMAGE)


def _blob_name(archive: Archive, item: Descriptor) -> str:
    check_digest(archive, item.digest)
    return f"blobs/sha256/{item.hex}"


def _blob(archive: Archive, item: Descriptor) -> bytes:
    """The document that ``item`` describes, compared with its digest and size."""
    name = _blob_name(archive, item)
    data = archive.document(name)
    if data is None:
        raise DamagedImage(archive.label, item.digest, "it is missing, and named by the image's documents")
    if len(data) != item.size or hashlib.sha256(data).hexdigest() != item.hex:
        raise DamagedImage(archive.label, item.digest)
    return data


def _read(place: Place, label: str) -> bytes:
    if place.size > DOCUMENT_BYTES_MAX:
        raise InputError(f"{label}: larger than {DOCUMENT_BYTES_MAX} bytes", fix=NOT_AN_IMAGE)
    handle = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.pread(handle, place.size, place.offset)
    finally:
        os.close(handle)


def _decode[T](data: bytes, kind: type[T], where: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{where}: {error}", fix=NOT_AN_IMAGE) from None
