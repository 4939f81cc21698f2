"""The result of looking into an image: records with a published schema (docs/schemas/image-inspect.json)."""

from __future__ import annotations

from orbit.core.records import Record
from orbit.image.inspect.kinds import GpuUse

SCHEMA = "orbit.image-inspect/1"


class LayerRow(Record, frozen=True, kw_only=True):
    """One layer."""

    name: str
    """As Orbit wrote it, else what its history says made it, else its number."""
    digest: str
    """``sha256:...`` of the blob; empty where nothing says it (archives of docker, images of an engine)."""
    diff_id: str
    """``sha256:...`` of the tar stream in it."""
    codec: str
    """``zstd``, ``gzip`` or ``none``; empty when not known."""
    pull_bytes: int | None
    """Size of the blob; None where the image is not kept as it is pulled."""
    disk_bytes: int | None
    """Size of the tar stream; None when it was not read and the image does not say it."""
    files: int | None
    """Members that are no folders."""


class FileRow(Record, frozen=True, kw_only=True):
    """One file, or its part of one kind."""

    path: str
    layer: str
    owner: str
    kind: str
    disk_bytes: int
    pull_bytes: int | None


class KindRow(Record, frozen=True, kw_only=True):
    """One kind of content."""

    kind: str
    """A key of :data:`orbit.image.inspect.kinds.KINDS`."""
    files: int
    disk_bytes: int
    pull_bytes: int | None


class OwnerRow(Record, frozen=True, kw_only=True):
    """What a distribution, a package or nobody has in the image."""

    kind: str
    """``python``, ``debian`` or ``other``."""
    name: str
    version: str
    files: int
    disk_bytes: int
    pull_bytes: int | None
    layers: tuple[str, ...]
    architectures: dict[str, int]
    """Bytes of device code by architecture."""
    unused_bytes: int
    """Bytes of device code that no target can use."""


class ArchitectureRow(Record, frozen=True, kw_only=True):
    """Device code for one architecture."""

    arch: str
    """``sm_90a``, ``compute_100``, ``lto_75``."""
    pieces: int
    """Images in fatbin containers, and loose files."""
    disk_bytes: int
    """As they lie in the files: mostly compressed already."""
    pull_bytes: int | None
    sass: tuple[str, ...]
    """Targets that run it as it is."""
    jit: tuple[str, ...]
    """Targets for which it is compiled or linked at run time."""
    owners: dict[str, int]
    """Bytes by distribution, most first."""


class DuplicateRow(Record, frozen=True, kw_only=True):
    """One content that lies in several places."""

    sha256: str
    size: int
    copies: int
    waste_bytes: int
    """All copies but one."""
    paths: tuple[str, ...]
    """The first ones."""


class HiddenRow(Record, frozen=True, kw_only=True):
    """A file that an upper layer replaces or removes: pulled and stored for nothing."""

    path: str
    layer: str
    disk_bytes: int
    pull_bytes: int | None


class CellRow(Record, frozen=True, kw_only=True):
    """What one owner has of one kind in one layer. The cells of a layer add up to it."""

    layer: str
    owner: str
    """Name and version."""
    owner_kind: str
    kind: str
    arch: str
    """Of device code, else empty."""
    files: int
    disk_bytes: int
    pull_bytes: int | None


class Contents(Record, frozen=True, kw_only=True):
    """What fills an image."""

    targets: tuple[GpuUse, ...]
    """The GPUs by which device code is called used or not; empty when nobody says any."""
    files: int
    disk_bytes: int
    """Bytes of file contents in all layers, without tar headers and padding."""
    device_bytes: int
    unused_bytes: int | None
    """Device code that no target can use; None without targets."""
    unused_pull_bytes: int | None
    owners: tuple[OwnerRow, ...]
    kinds: tuple[KindRow, ...]
    architectures: tuple[ArchitectureRow, ...]
    largest: tuple[FileRow, ...]
    duplicate_bytes: int
    duplicates: tuple[DuplicateRow, ...]
    """The largest ones."""
    hidden_bytes: int
    hidden: tuple[HiddenRow, ...]
    """The largest ones."""
    cells: tuple[CellRow, ...]


class Inspection(Record, frozen=True, kw_only=True):
    """One image."""

    schema: str = SCHEMA
    image: str
    """As it was asked for."""
    digest: str
    """``sha256:...`` of the manifest; of the configuration where there is none."""
    architecture: str
    user: str
    working_dir: str
    env: tuple[str, ...]
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    labels: dict[str, str]
    layers: tuple[LayerRow, ...]
    pull_bytes: int | None
    disk_bytes: int | None
    """Sum of the tar streams; None when a layer does not say its size and was not read."""
    verified: bool
    """Whether every byte of every layer was read now and compared with its digest."""
    contents: Contents | None
    """None when only the documents were read."""
