"""OCI image layouts: the documents, and reading a layout that anybody may have written.

Formats: OCI image specification 1.1 (image-layout, image-index, manifest, config). A layout is a folder with
``oci-layout``, ``index.json`` and ``blobs/sha256/<hex>``; every blob is named by the sha256 of its bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from orbit.core.console import BYTES, Progress, Silent
from orbit.core.files import sha256_file
from orbit.core.records import Record
from orbit.errors import CommandFailed, InputError
from orbit.image.blob import CODEC_OF, Codec
from orbit.image.damage import CONTENT, MISSING, DamagedImage

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
CREATED = "1980-01-01T00:00:00Z"
"""The time an image says it was made: a constant, so that equal inputs give an equal digest on any day."""
NAME_KEY = "io.orbit.layer.name"
TAR_BYTES_KEY = "io.orbit.layer.tar-bytes"
FILES_KEY = "io.orbit.layer.files"
REF_KEY = "org.opencontainers.image.ref.name"
LAYOUT_VERSION = "1.0.0"
SCHEMA_VERSION = 2
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
COUNT = re.compile(r"[0-9]{1,15}")
DOCUMENT_BYTES_MAX = 4 << 20
"""Far more than any document of an image has; nothing larger is read into memory."""
AGAIN = "make the image again: orbit image build"
ONE_IMAGE = "give a layout with one OCI image (`skopeo copy --format oci` makes one)"
UNPACK = (
    "make a layout of the archive: `mkdir DIR && tar -xf FILE -C DIR` for an OCI archive, `skopeo copy "
    "docker-archive:FILE oci:DIR` for one of `docker save`"
)


class Marker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``oci-layout``."""

    image_layout_version: str


class Descriptor(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A reference to a blob. Foreign fields are ignored: other tools write layouts too."""

    media_type: str
    digest: str
    size: Annotated[int, msgspec.Meta(ge=0)]
    annotations: dict[str, str] = {}

    @property
    def hex(self) -> str:
        """The digest without its algorithm."""
        return self.digest.removeprefix("sha256:")


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An image manifest."""

    schema_version: int = SCHEMA_VERSION
    media_type: str = MANIFEST_TYPE
    config: Descriptor
    layers: tuple[Descriptor, ...]
    annotations: dict[str, str] = {}


class Index(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``index.json``."""

    schema_version: int = SCHEMA_VERSION
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

    @property
    def variables(self) -> dict[str, str]:
        """``env`` by name."""
        return dict(item.split("=", 1) for item in self.env)


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


class ImageLayer(Record, frozen=True, kw_only=True):
    """One layer of a layout that was read."""

    name: str
    """As annotated, else its number."""
    digest: str
    diff_id: str
    codec: Codec
    size: int
    """Bytes of the blob."""
    tar_bytes: int | None
    """Bytes of the unpacked stream; None when the layout does not say."""
    files: int | None
    """Members that are no folders; None when the layout does not say."""


class Layout(Record, frozen=True, kw_only=True):
    """A layout that was read: one image, its layers from the lowest up."""

    path: Path
    digest: str
    """Of the manifest."""
    manifest: Manifest
    config: Config
    config_bytes: bytes
    """The configuration as it is stored, which is what its digest names."""
    layers: tuple[ImageLayer, ...]

    def blob(self, layer: ImageLayer) -> Path:
        """The file of a layer; :class:`DamagedImage` when it is missing or of another size. Its content is not read."""
        file = _blob_file(self.path, layer.digest)
        if not file.is_file() or file.stat().st_size != layer.size:
            raise DamagedImage(self.path, layer.digest, MISSING, layer=layer.name)
        return file


def encode(document: msgspec.Struct) -> bytes:
    """The bytes of a document: sorted keys, no spaces, so that equal documents have equal digests."""
    return msgspec.json.encode(document, order="sorted")


def read_layout(path: Path) -> Layout:
    """Read the layout of one image at ``path``, trusting nothing in it.

    Documents are compared with the digest and size that name them. Every digest is one, so none leads out of the
    layout; media types, versions, sizes and variables are what the users of the result rely on. Layers are not read:
    see :meth:`Layout.blob` and :func:`verify_layers`.

    Raises :class:`InputError` for what is no layout, or no image that could run: :class:`DamagedImage` for a document
    that is damaged or missing.
    """
    if path.is_file():
        raise InputError(f"{path}: a file, and this command needs an OCI layout, which is a folder", fix=UNPACK)
    mark, top = path / "oci-layout", path / "index.json"
    if not mark.is_file() or not top.is_file():
        raise InputError(
            f"{path}: not an OCI layout (no {'index.json' if mark.is_file() else 'oci-layout'} file)",
            fix="make one with `orbit image build`",
        )
    _expect(mark, "imageLayoutVersion", _decode(_read(mark), Marker, mark).image_layout_version, LAYOUT_VERSION)
    index = _decode(_read(top), Index, top)
    _expect(top, "schemaVersion", index.schema_version, SCHEMA_VERSION)
    _expect(top, "mediaType", index.media_type, INDEX_TYPE)
    if len(index.manifests) != 1:
        raise InputError(f"{path}: {len(index.manifests)} images in one layout", fix=ONE_IMAGE)
    (described,) = index.manifests
    file, data = _document(path, top, described, MANIFEST_TYPE)
    manifest = _decode(data, Manifest, file)
    _expect(file, "schemaVersion", manifest.schema_version, SCHEMA_VERSION)
    _expect(file, "mediaType", manifest.media_type, MANIFEST_TYPE)
    config_file, data = _document(path, file, manifest.config, CONFIG_TYPE)
    config = _decode(_without_nulls(data), Config, config_file)
    _expect(config_file, "rootfs.type", config.rootfs.type, "layers")
    _check_run(config_file, config.config)
    return Layout(
        path=path,
        digest=described.digest,
        manifest=manifest,
        config=config,
        config_bytes=data,
        layers=_layers(path, manifest, config),
    )


def _blob_file(path: Path, digest: str) -> Path:
    return path / "blobs" / "sha256" / digest.removeprefix("sha256:")


def _read(file: Path) -> bytes:
    if file.stat().st_size > DOCUMENT_BYTES_MAX:
        raise InputError(f"{file}: larger than {DOCUMENT_BYTES_MAX} bytes", fix="not a document of an OCI image")
    return file.read_bytes()


def _document(path: Path, where: Path, item: Descriptor, media_type: str) -> tuple[Path, bytes]:
    """(file, content) of the document that ``item``, a part of ``where``, describes."""
    _expect(where, "mediaType of what it names", item.media_type, media_type)
    _check_digest(where, item.digest)
    file = _blob_file(path, item.digest)
    if not file.is_file():
        raise DamagedImage(path, item.digest, f"it is missing, and named by {where.name}")
    data = _read(file)
    if hashlib.sha256(data).hexdigest() != item.hex:
        raise DamagedImage(path, item.digest, CONTENT)
    if len(data) != item.size:
        raise DamagedImage(path, item.digest, f"{len(data)} bytes, and {item.size} by {where.name}")
    return file, data


def _without_nulls(data: bytes) -> bytes:
    """A configuration as docker writes it, less the keys it gives as null ("Cmd": null): absent means the same."""

    def clean(value: object) -> object:
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items() if item is not None}
        return [clean(item) for item in value] if isinstance(value, list) else value

    try:
        return msgspec.json.encode(clean(msgspec.json.decode(data)))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return data  # the typed decoder words the error


def _decode[T](data: bytes, kind: type[T], where: Path) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{where}: {error}", fix="not a document of an OCI image") from None


def _expect(where: Path, key: str, found: str | int, wanted: str | int) -> None:
    if found != wanted:
        raise InputError(f"{where}: {key} is {found!r}, not {wanted!r}", fix=ONE_IMAGE)


def _check_digest(where: Path, digest: str) -> None:
    if not DIGEST.fullmatch(digest):
        raise InputError(f"{where}: digest {digest!r} is not sha256:<64 hex digits>", fix=AGAIN)


def _check_run(where: Path, run: RunConfig) -> None:
    """No word a process cannot be given."""
    for item in run.env:
        if item.find("=") < 1:
            raise InputError(f"{where}: variable {item!r} is not NAME=value", fix=AGAIN)
    for word in (*run.env, *run.entrypoint, *run.cmd, run.working_dir):
        if "\0" in word:
            raise InputError(f"{where}: {word!r} has a NUL character", fix=AGAIN)


def _layers(path: Path, manifest: Manifest, config: Config) -> tuple[ImageLayer, ...]:
    diff_ids = config.rootfs.diff_ids
    if not manifest.layers:
        raise InputError(f"{path}: the image has no layers", fix=AGAIN)
    if len(diff_ids) != len(manifest.layers):
        raise InputError(f"{path}: {len(manifest.layers)} layers but {len(diff_ids)} diff ids", fix=AGAIN)
    layers = []
    for number, (item, diff_id) in enumerate(zip(manifest.layers, diff_ids, strict=True)):
        for digest in (item.digest, diff_id):
            _check_digest(path, digest)
        codec = CODEC_OF.get(item.media_type)
        if codec is None:
            raise InputError(
                f"{path}: {item.digest}: layer of media type {item.media_type!r}", fix=f"known: {', '.join(CODEC_OF)}"
            )
        layers.append(
            ImageLayer(
                name=item.annotations.get(NAME_KEY, str(number)),
                digest=item.digest,
                diff_id=diff_id,
                codec=codec,
                size=item.size,
                tar_bytes=_count(item.annotations.get(TAR_BYTES_KEY, "")),
                files=_count(item.annotations.get(FILES_KEY, "")),
            )
        )
    return tuple(layers)


def _count(text: str) -> int | None:
    return int(text) if COUNT.fullmatch(text) else None


@contextlib.contextmanager
def blaming(layout: Layout, progress: Progress) -> Iterator[None]:
    """For a program that reads the layout by itself: when it fails, :class:`DamagedImage` if the layout is why."""
    try:
        yield
    except CommandFailed:
        progress.step("it failed: is a layer damaged?")
        verify_layers(layout, progress=progress)
        raise


def verify_layers(layout: Layout, *, progress: Progress | None = None) -> None:
    """Compare the sha256 of every layer blob with its name; raises :class:`DamagedImage` for the first that differs."""
    told: Callable[[str, int, int, str], None] = (progress or Silent()).advance
    total = sum(layer.size for layer in layout.layers)
    done = 0
    for layer in layout.layers:
        file = layout.blob(layer)
        if f"sha256:{sha256_file(file)}" != layer.digest:
            raise DamagedImage(layout.path, layer.digest, layer=layer.name)
        done += layer.size
        told("checking layers", done, total, BYTES)
