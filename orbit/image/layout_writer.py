"""Writing an OCI image layout in one step: its documents, and its blobs as links to where they lie."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from orbit.core.files import link_or_copy, naming, remove_tree, replace_folder, sync_folder
from orbit.core.records import Record
from orbit.errors import InputError
from orbit.image.blob import MEDIA_TYPE, LayerBlob
from orbit.image.oci import (
    CONFIG_TYPE,
    CREATED,
    FILES_KEY,
    LAYOUT_VERSION,
    MANIFEST_TYPE,
    NAME_KEY,
    REF_KEY,
    TAR_BYTES_KEY,
    Config,
    Descriptor,
    History,
    Index,
    Manifest,
    Marker,
    RootFs,
    RunConfig,
    encode,
)


class NamedLayer(Record, frozen=True, kw_only=True):
    """A written layer with its name and the blob's file."""

    name: str
    blob: LayerBlob
    path: Path


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
        if not _maker_runs(leftover.name.removeprefix(f".{out.name}.")):
            remove_tree(leftover)
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    blobs = partial / "blobs" / "sha256"
    try:
        blobs.mkdir(parents=True)
        for layer in layers:
            link_or_copy(layer.path, blobs / layer.blob.digest.removeprefix("sha256:"))
        described = _descriptor(MANIFEST_TYPE, manifest, {REF_KEY: ref})
        for data in (manifest, config):
            _write(blobs / hashlib.sha256(data).hexdigest(), data)
        _write(partial / "index.json", encode(Index(manifests=(described,))))
        _write(partial / "oci-layout", encode(Marker(image_layout_version=LAYOUT_VERSION)))
        sync_folder(blobs)
        sync_folder(partial)
        replace_folder(partial, out)
    except BaseException:
        remove_tree(partial)
        raise
    return described.digest


def _maker_runs(name: str) -> bool:
    """Whether the process whose number leads ``name`` runs and is another one: it may be writing the same layout."""
    maker = name.partition(".")[0]
    return maker.isdigit() and int(maker) != os.getpid() and os.path.exists(f"/proc/{maker}")


def _write(path: Path, data: bytes) -> None:
    with naming(path), open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
