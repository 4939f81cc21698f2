"""Look into an image: its documents, and if wanted its layers, from memory where they were read before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from orbit.audit.facts import printable
from orbit.audit.images.image_source import Manifest
from orbit.audit.images.layer_cache import LayerCache
from orbit.audit.images.opened import FILES, OpenImage, open_image
from orbit.audit.run import without_collector
from orbit.core.console import Progress
from orbit.errors import InputError
from orbit.image.blob import CODEC_OF
from orbit.image.inspect.kinds import targets_of
from orbit.image.inspect.pull import Measure, PullCache, measure_blobs
from orbit.image.inspect.records import Contents, Inspection, LayerRow
from orbit.image.inspect.weigh import Weighed, contents_of, weigh
from orbit.image.oci import COUNT, FILES_KEY, TAR_BYTES_KEY, Descriptor, read_layout, verify_layers
from orbit.profile.model import Profile

ENDS = (("gzip", "gzip"), ("zstd", "zstd"), ("tar", "none"))
"""How media types of other tools end, and the codec that means."""


@dataclass(frozen=True, slots=True)
class Looked:
    """An image that was looked into."""

    facts: Inspection
    weighed: Weighed | None
    """How its layers were divided up, with names of files; None when they were not read."""


def look(
    spec: str, *, profile: Profile | None, cache: Path | None, brief: bool, verify: bool, progress: Progress
) -> Looked:
    """Look into the image that ``spec`` names (see :func:`orbit.audit.images.opened.open_image`).

    ``profile``: whose targets decide which device code is used; None: what the image's labels say. With ``cache`` (a
    folder) layers that were read before are not read again. ``brief``: documents only. ``verify``: read every byte.

    Raises :class:`InputError` for what is no image, that of a damaged layer is
    :class:`orbit.image.damage.DamagedImage`.
    """
    opened = open_image(spec, progress)
    if opened.remark:
        progress.step(opened.remark)
    if verify:
        _verify(opened, progress)
    rows = layer_rows(opened)
    contents: Contents | None = None
    weighed: Weighed | None = None
    if not brief:
        with without_collector():
            rows, weighed = _weigh(opened, rows, cache, progress)
            contents = contents_of(weighed, targets_of(opened.ref.facts.labels, profile))
    return Looked(_inspection(opened, rows, verified=verify, contents=contents), weighed)


def _verify(opened: OpenImage, progress: Progress) -> None:
    """Read every byte of every layer; :class:`InputError` when one is not what its digest says."""
    if opened.stream is not None:
        return  # it was read and compared as it went by
    kind, colon, name = opened.spec.partition(":")
    path = Path(name if colon and kind in FILES else opened.spec)
    try:
        layout = read_layout(path) if path.is_dir() else None
    except InputError:
        layout = None  # of another tool, with more in it than Orbit writes
    if layout is not None:
        verify_layers(layout, progress=progress)
        return
    opened.facts(range(len(opened.ref.layers)), None, progress)


def layer_rows(opened: OpenImage) -> tuple[LayerRow, ...]:
    """The layers as the documents describe them."""
    described: Sequence[Descriptor | None] = [None] * len(opened.ref.layers)
    if opened.ref.manifest != b"{}":
        described = msgspec.json.decode(opened.ref.manifest, type=Manifest).layers
    rows = []
    for number, (ref, item) in enumerate(zip(opened.ref.layers, described, strict=True)):
        notes = item.annotations if item is not None else {}
        rows.append(
            LayerRow(
                name=printable(ref.title or str(number)),
                digest=ref.digest,
                diff_id=ref.diff_id,
                codec=_codec(item.media_type) if item is not None else "",
                pull_bytes=item.size if item is not None else None,
                disk_bytes=_count(notes.get(TAR_BYTES_KEY, "")),
                files=_count(notes.get(FILES_KEY, "")),
            )
        )
    return tuple(rows)


def _count(text: str) -> int | None:
    return int(text) if COUNT.fullmatch(text) else None


def _codec(media_type: str) -> str:
    known = CODEC_OF.get(media_type)
    return known or next((codec for end, codec in ENDS if media_type.endswith(end)), "")


def _weigh(
    opened: OpenImage, rows: tuple[LayerRow, ...], cache: Path | None, progress: Progress
) -> tuple[tuple[LayerRow, ...], Weighed]:
    """(the layers with what was read of them, what fills them)."""
    numbers = range(len(rows))
    facts, _ = opened.facts(numbers, LayerCache(cache) if cache is not None else None, progress)
    layers = [facts[number] for number in numbers]
    measures: tuple[Measure, ...] | None = None
    if opened.places and all(row.pull_bytes is not None for row in rows):
        blobs = [(opened.places[number], rows[number].digest.removeprefix("sha256:")) for number in numbers]
        measures = measure_blobs(blobs, PullCache(cache) if cache is not None else None, progress)
    rows = tuple(
        msgspec.structs.replace(row, disk_bytes=layer.tar_bytes, files=_members(row, layer.files))
        for row, layer in zip(rows, layers, strict=True)
    )
    return rows, weigh(layers, [row.name for row in rows], measures)


def _members(row: LayerRow, regular: int) -> int:
    """Members that are no folders, as the image says it; else the regular files that were read."""
    return row.files if row.files is not None else regular


def _inspection(
    opened: OpenImage, rows: tuple[LayerRow, ...], *, verified: bool, contents: Contents | None
) -> Inspection:
    image = opened.ref.facts
    pulls = [row.pull_bytes for row in rows if row.pull_bytes is not None]
    disks = [row.disk_bytes for row in rows if row.disk_bytes is not None]
    return Inspection(
        image=printable(opened.spec),
        digest=image.digest,
        architecture=image.architecture,
        user=image.user,
        working_dir=image.working_dir,
        env=tuple(f"{name}={value}" for name, value in opened.ref.variables.items()),
        entrypoint=image.entrypoint,
        cmd=image.command,
        labels=dict(image.labels),
        layers=rows,
        pull_bytes=sum(pulls) if len(pulls) == len(rows) else None,
        disk_bytes=sum(disks) if len(disks) == len(rows) else None,
        verified=verified,
        contents=contents,
    )
