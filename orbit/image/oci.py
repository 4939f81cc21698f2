"""OCI image layouts: the documents, writing a layout in one step, reading and checking one.

Formats: OCI image specification 1.1 (image-layout, image-index, manifest, config). A layout is a folder with
``oci-layout``, ``index.json`` and ``blobs/sha256/<hex>``; every blob is named by the sha256 of its bytes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from orbit.core.console import Progress, Silent
from orbit.core.files import remove_tree, replace_folder, sha256_file, sync_folder
from orbit.core.records import Record
from orbit.errors import CheckFailed, InputError
from orbit.image.blob import CODEC_OF, MEDIA_TYPE, Codec, LayerBlob

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
CREATED = "1980-01-01T00:00:00Z"
"""The time an image says it was made: a constant, so that equal inputs give an equal digest on any day."""
NAME_KEY = "io.orbit.layer.name"
TAR_BYTES_KEY = "io.orbit.layer.tar-bytes"
FILES_KEY = "io.orbit.layer.files"
REF_KEY = "org.opencontainers.image.ref.name"


class Descriptor(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A reference to a blob. Foreign fields are ignored: other tools write layouts too."""

    media_type: str
    digest: str
    size: int
    annotations: dict[str, str] = {}

    @property
    def hex(self) -> str:
        """The digest without its algorithm."""
        return self.digest.removeprefix("sha256:")


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An image manifest."""

    schema_version: int = 2
    media_type: str = MANIFEST_TYPE
    config: Descriptor
    layers: tuple[Descriptor, ...]
    annotations: dict[str, str] = {}


class Index(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``index.json``."""

    schema_version: int = 2
    media_type: str = INDEX_TYPE
    manifests: tuple[Descriptor, ...]


class RunConfig(msgspec.Struct, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    """How a container of the image is started."""

    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    working_dir: str = ""
    user: str = ""
    labels: dict[str, str] = {}


class RootFs(msgspec.Struct, frozen=True, kw_only=True):
    """What the layers hold when unpacked."""

    type: str = "layers"
    diff_ids: tuple[str, ...]


class History(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One layer's line in ``docker history``."""

    created: str = ""
    created_by: str = ""
    comment: str = ""
    empty_layer: bool = False


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """An image configuration."""

    created: str = CREATED
    architecture: str = "amd64"
    os: str = "linux"
    config: RunConfig
    rootfs: RootFs
    history: tuple[History, ...] = ()


class NamedLayer(Record, frozen=True, kw_only=True):
    """A written layer with its name and the blob's file."""

    name: str
    blob: LayerBlob
    path: Path


class Layout(Record, frozen=True, kw_only=True):
    """A layout that was read: one image."""

    path: Path
    digest: str
    """Of the manifest."""
    manifest: Manifest
    config: Config

    def blob(self, descriptor: Descriptor) -> Path:
        """The file of a blob."""
        return self.path / "blobs" / "sha256" / descriptor.hex


def encode(document: msgspec.Struct) -> bytes:
    """The bytes of a document: sorted keys, no spaces, so that equal documents have equal digests."""
    return msgspec.json.encode(document, order="sorted")


def layer_codec(layer: Descriptor) -> Codec:
    """How a layer is compressed. Raises :class:`InputError` for a media type no OCI image of ours has."""
    try:
        return CODEC_OF[layer.media_type]
    except KeyError:
        raise InputError(
            f"{layer.digest}: layer of media type {layer.media_type!r}", fix=f"known: {', '.join(CODEC_OF)}"
        ) from None


def image_documents(
    layers: Sequence[NamedLayer], run: RunConfig, annotations: Mapping[str, str]
) -> tuple[bytes, bytes]:
    """(manifest, config) of an image of these layers."""
    config = Config(
        config=run,
        rootfs=RootFs(diff_ids=tuple(layer.blob.diff_id for layer in layers)),
        history=tuple(History(created=CREATED, created_by=f"orbit: {layer.name}") for layer in layers),
    )
    config_bytes = encode(config)
    manifest = Manifest(
        config=_descriptor(CONFIG_TYPE, config_bytes),
        layers=tuple(
            Descriptor(
                media_type=MEDIA_TYPE[layer.blob.codec],
                digest=layer.blob.digest,
                size=layer.blob.size,
                annotations={
                    NAME_KEY: layer.name,
                    TAR_BYTES_KEY: str(layer.blob.tar_bytes),
                    FILES_KEY: str(layer.blob.files),
                },
            )
            for layer in layers
        ),
        annotations=dict(annotations),
    )
    return encode(manifest), config_bytes


def _descriptor(media_type: str, data: bytes, annotations: Mapping[str, str] | None = None) -> Descriptor:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return Descriptor(media_type=media_type, digest=digest, size=len(data), annotations=dict(annotations or {}))


def write_layout(out: Path, layers: Sequence[NamedLayer], manifest: bytes, config: bytes, *, ref: str) -> str:
    """Make ``out`` the layout of this image and return the manifest's digest.

    Layer blobs become hard links to where they lie (copies on another file system). ``out`` changes in one step: a
    killed run leaves the old layout or the new one. Raises :class:`InputError` when ``out`` holds something else.
    """
    if out.exists() and not (out / "oci-layout").is_file() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: exists and is not an OCI layout", fix="choose another place, or remove it")
    out.parent.mkdir(parents=True, exist_ok=True)
    for leftover in out.parent.glob(f".{out.name}.*.partial*"):
        remove_tree(leftover)
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    blobs = partial / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    try:
        for layer in layers:
            link_or_copy(layer.path, blobs / layer.blob.digest.removeprefix("sha256:"))
        described = _descriptor(MANIFEST_TYPE, manifest, {REF_KEY: ref})
        for data in (manifest, config):
            _write(blobs / hashlib.sha256(data).hexdigest(), data)
        _write(partial / "index.json", encode(Index(manifests=(described,))))
        _write(partial / "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        sync_folder(blobs)
        sync_folder(partial)
        replace_folder(partial, out)
    except BaseException:
        remove_tree(partial)
        raise
    return described.digest


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def link_or_copy(source: Path, target: Path) -> None:
    """Hard link, or a copy where links cannot reach (another file system, too many links)."""
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.ENOTSUP):
            raise
        shutil.copyfile(source, target)
        os.chmod(target, 0o444)


def read_layout(path: Path) -> Layout:
    """Read a layout with one image. Documents are checked against their digests; layers by :func:`verify_layers`."""
    if not (path / "oci-layout").is_file():
        raise InputError(f"{path}: not an OCI layout (no oci-layout file)", fix="make one with `orbit image build`")
    index = _decode((path / "index.json").read_bytes(), Index, path / "index.json")
    if len(index.manifests) != 1:
        raise InputError(f"{path}: {len(index.manifests)} images in one layout", fix="give a layout with one image")
    manifest = _document(path, index.manifests[0], Manifest)
    config = _document(path, manifest.config, Config)
    if len(config.rootfs.diff_ids) != len(manifest.layers):
        raise InputError(f"{path}: {len(manifest.layers)} layers but {len(config.rootfs.diff_ids)} diff ids")
    return Layout(path=path, digest=index.manifests[0].digest, manifest=manifest, config=config)


def _document[T](path: Path, descriptor: Descriptor, kind: type[T]) -> T:
    file = path / "blobs" / "sha256" / descriptor.hex
    data = file.read_bytes()
    if hashlib.sha256(data).hexdigest() != descriptor.hex:
        raise CheckFailed(f"{file}: its content is not what its name says", fix="the layout is damaged: build it again")
    return _decode(data, kind, file)


def _decode[T](data: bytes, kind: type[T], where: Path) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise InputError(f"{where}: {error}", fix="not a document of an OCI image") from None


def verify_layers(layout: Layout, *, progress: Progress | None = None) -> None:
    """Compare the sha256 of every layer blob with its name; raises :class:`CheckFailed` for the first that differs."""
    told: Callable[[str, int, int], None] = (progress or Silent()).advance
    total = sum(layer.size for layer in layout.manifest.layers)
    done = 0
    for layer in layout.manifest.layers:
        file = layout.blob(layer)
        if not file.is_file() or file.stat().st_size != layer.size or sha256_file(file) != layer.hex:
            raise CheckFailed(
                f"{file}: layer {layer.annotations.get(NAME_KEY, '')} is damaged or missing",
                fix="remove the layout and the cached layer, then build the image again",
            )
        done += layer.size
        told("checking layers", done, total)
