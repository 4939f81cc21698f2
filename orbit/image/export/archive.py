"""Tar files of an image: the OCI layout as it is, with every blob checked while it streams.

(docker's own format, ``docker save``, is made by :func:`orbit.image.docker.archive`.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from orbit.core.console import BYTES, Progress
from orbit.core.files import read_file
from orbit.image.damage import DamagedImage
from orbit.image.oci import (
    DOCUMENT_BYTES_MAX,
    LAYOUT_VERSION,
    MANIFEST_TYPE,
    Descriptor,
    Index,
    Layout,
    Marker,
    encode,
)
from orbit.image.tar import BLOCK, CHUNK_BYTES, Member, content, folder, header, tar_chunks


def oci_archive(layout: Layout, annotations: Mapping[str, str], progress: Progress) -> Iterator[bytes]:
    """The layout as a tar stream; ``annotations`` are those of its only image in ``index.json``.

    The bytes depend on the image and the annotations alone. Raises :class:`DamagedImage` for a damaged blob, before the
    end of the stream.
    """
    manifest = read_file(layout.path / "blobs" / "sha256" / layout.digest.removeprefix("sha256:"), DOCUMENT_BYTES_MAX)
    described = Descriptor(
        media_type=MANIFEST_TYPE, digest=layout.digest, size=len(manifest), annotations=dict(annotations)
    )
    small = {layout.digest: manifest, layout.manifest.config.digest: layout.config_bytes}
    files = {layer.digest: layout.blob(layer) for layer in layout.layers}
    yield header(folder("blobs"))
    yield header(folder("blobs/sha256"))
    done, total = 0, sum(layer.size for layer in layout.layers)
    for digest in sorted({*small, *files}):
        name = f"blobs/sha256/{digest.removeprefix('sha256:')}"
        if digest in small:
            yield from _member(layout, content(name, small[digest]), digest)
            continue
        size = files[digest].stat().st_size
        yield from _member(layout, Member(name, "file", 0o644, size=size, source=files[digest]), digest)
        done += size
        progress.advance("writing layers", done, total, BYTES)
    yield from tar_chunks(
        [
            content("index.json", encode(Index(manifests=(described,)))),
            content("oci-layout", encode(Marker(image_layout_version=LAYOUT_VERSION))),
        ]
    )


def _member(layout: Layout, member: Member, digest: str) -> Iterator[bytes]:
    """A blob with its header, compared with its digest."""
    found, left = hashlib.sha256(), member.size
    yield header(member)
    for piece in _pieces(member.source):
        found.update(piece)
        left -= len(piece)
        yield piece
    if left or f"sha256:{found.hexdigest()}" != digest:
        raise DamagedImage(layout.path, digest)
    yield bytes(-member.size % BLOCK)


def _pieces(source: object) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
    elif isinstance(source, Path):
        with open(source, "rb", buffering=0) as file:
            while piece := file.read(CHUNK_BYTES):
                yield piece
