"""What running an image without an engine needs of its layout: layers to unpack, and how a container starts."""

from __future__ import annotations

import re
from pathlib import Path

from orbit.core.records import Record
from orbit.errors import InputError
from orbit.image.blob import Codec
from orbit.image.oci import TAR_BYTES_KEY, layer_codec, read_layout
from orbit.image.runtime import SYSTEM_PATH

DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$")
EXPANSION = 5
"""Unpacked bytes per compressed byte, for layers that do not say their own size."""


class LayerRef(Record, frozen=True, kw_only=True):
    """One layer of an image."""

    digest: str
    diff_id: str
    size: int
    """Bytes of the blob."""
    unpacked: int
    """Bytes of the tar stream: as annotated, else estimated."""
    codec: Codec


class OciImage(Record, frozen=True, kw_only=True):
    """One image of a layout, as far as running it goes."""

    layout: Path
    digest: str
    """Of the manifest."""
    layers: tuple[LayerRef, ...]
    env: dict[str, str]
    entrypoint: tuple[str, ...]
    working_dir: str

    def blob(self, layer: LayerRef) -> Path:
        """The file of a layer."""
        return self.layout / "blobs" / "sha256" / layer.digest.removeprefix("sha256:")


def read_image(path: Path) -> OciImage:
    """Read the layout at ``path``. Raises :class:`InputError` for what is no layout, or no image that could run."""
    layout = read_layout(path)
    if not layout.manifest.layers:
        raise InputError(f"{path}: the image has no layers", fix="make it again: orbit image build")
    layers = []
    for item, diff_id in zip(layout.manifest.layers, layout.config.rootfs.diff_ids, strict=True):
        for digest in (item.digest, diff_id):
            if not DIGEST.match(digest):
                raise InputError(f"{path}: digest {digest!r} is not sha256:<64 hex digits>", fix="make it again")
        told = item.annotations.get(TAR_BYTES_KEY, "")
        layers.append(
            LayerRef(
                digest=item.digest,
                diff_id=diff_id,
                size=item.size,
                unpacked=int(told) if told.isdigit() else item.size * EXPANSION,
                codec=layer_codec(item),
            )
        )
    run = layout.config.config
    return OciImage(
        layout=path,
        digest=layout.digest,
        layers=tuple(layers),
        env=dict(item.split("=", 1) for item in run.env),
        entrypoint=run.entrypoint,
        working_dir=run.working_dir or "/",
    )


def container_env(image: OciImage, home: str) -> dict[str, str]:
    """The environment an engine gives a process of this image: the image's own, PATH and HOME when it sets none."""
    return {"PATH": SYSTEM_PATH, "HOME": home, **image.env}
