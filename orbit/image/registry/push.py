"""An image from an OCI layout into a registry: only what is not there, and its name last of all."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from orbit.core.amounts import format_bytes
from orbit.core.console import Progress
from orbit.core.files import read_file
from orbit.core.records import Record
from orbit.errors import CheckFailed, InputError
from orbit.image.damage import DamagedImage
from orbit.image.oci import DOCUMENT_BYTES_MAX, MANIFEST_TYPE, Layout, read_layout
from orbit.image.registry.documents import fetch_manifest
from orbit.image.registry.reference import Reference
from orbit.image.registry.session import PATIENCE, Patience, Registry
from orbit.image.registry.transfer import JOBS, BlobState, Meter, run_all
from orbit.image.registry.transport import SET_UP, data_body
from orbit.image.registry.upload import CHUNK_BYTES, WRONG_FIX, Outgoing, Upload, has_blob

SCHEMA = 1


class PushResult(Record, frozen=True, kw_only=True):
    """What a push did, or (:func:`plan_push`) would do."""

    schema: int = SCHEMA
    reference: str
    layout: str
    digest: str
    """Of the manifest: what to pull by."""
    blobs: tuple[BlobState, ...]
    moved_bytes: int
    """Bytes that went over the network, those sent again included; of a plan: that would, at most."""


def plan_push(layout: Path, reference: Reference, *, progress: Progress, plain_http: bool = False) -> PushResult:
    """What :func:`push` would do: which blobs the registry lacks. Mounts are not foreseen."""
    image = _image(layout, reference)
    with Registry(reference, plain_http=plain_http, progress=progress) as registry:
        items = outgoing(image)
        missing = _missing(registry, items)
    states = {item.digest: "missing" for item in missing}
    return _result(reference, image, items, states, sum(item.size for item in missing))


def push(
    layout: Path,
    reference: Reference,
    *,
    progress: Progress,
    plain_http: bool = False,
    sources: Mapping[str, str] | None = None,
    jobs: int = JOBS,
    patience: Patience = PATIENCE,
    chunk_bytes: int = CHUNK_BYTES,
) -> PushResult:
    """Have the image of ``layout`` in the registry under ``reference``.

    ``sources``: digest -> a repository of that registry that may have the blob. The manifest, and with it the tag, goes
    up when the registry has confirmed every blob; what comes back under the tag is compared at the end.

    Raises :class:`InputError` for what is no layout or another digest than the reference names, :class:`MissingError`
    when the registry cannot be reached or stays busy, :class:`RefusedError` when access is denied, and
    :class:`DamagedImage` for a blob that is damaged here and :class:`CheckFailed` for one that arrives as something
    else. Nothing has the tag then; blobs that
    arrived stay and are not sent again by the next push.
    """
    image = _image(layout, reference)
    items = outgoing(image)
    with Registry(reference, plain_http=plain_http, patience=patience, progress=progress) as registry:
        missing = _missing(registry, items)
        total = sum(item.size for item in missing)
        progress.step(f"{reference}: {len(missing)} of {len(items)} blobs to send, {format_bytes(total)}")
        meter = Meter(progress, "pushing", total)
        uploads = [
            Upload(registry, item, meter, source=(sources or {}).get(item.digest, ""), chunk_bytes=chunk_bytes)
            for item in missing
        ]
        words = run_all(registry, [upload.run for upload in uploads], jobs=jobs)
        lost = _missing(registry, missing)
        if lost:
            raise CheckFailed(
                f"{reference}: the registry took {lost[0].digest} and does not have it; nothing was tagged", fix=SET_UP
            )
        _put_manifest(registry, image)
    states = {item.digest: word for item, word in zip(missing, words, strict=True)}
    return _result(reference, image, items, states, meter.moved)


def outgoing(image: Layout) -> tuple[Outgoing, ...]:
    """The blobs of an image, each once, largest first (they take longest). Raises :class:`DamagedImage` for a missing
    one."""
    config = image.manifest.config
    found = {config.digest: Outgoing("config", config.digest, config.size, image.config_bytes)}
    for layer in image.layers:
        found[layer.digest] = Outgoing(layer.name, layer.digest, layer.size, image.blob(layer))
    return tuple(sorted(found.values(), key=lambda item: (-item.size, item.digest)))


def _image(path: Path, reference: Reference) -> Layout:
    image = read_layout(path)
    if reference.digest and reference.digest != image.digest:
        raise InputError(f"{path}: holds {image.digest}, not {reference.digest}", fix="correct the reference")
    return image


def _missing(registry: Registry, items: Sequence[Outgoing]) -> list[Outgoing]:
    """Blobs the registry does not have."""
    there = run_all(registry, [functools.partial(has_blob, registry, item) for item in items])
    return [item for item, has in zip(items, there, strict=True) if not has]


def _put_manifest(registry: Registry, image: Layout) -> None:
    """Give the image its name, and see that it is what the name brings."""
    data = read_file(image.path / "blobs" / "sha256" / image.digest.removeprefix("sha256:"), DOCUMENT_BYTES_MAX)
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != image.digest:
        raise DamagedImage(image.path, image.digest, "its manifest changed while it was pushed; nothing was tagged")
    name = registry.reference.tag or image.digest
    with registry.call(
        "PUT",
        registry.url(f"manifests/{name}"),
        expect=(200, 201, 202),
        scopes=registry.scopes("pull,push"),
        headers={"Content-Type": MANIFEST_TYPE},
        body=data_body(data),
    ):
        pass
    found, _kind, _data = fetch_manifest(registry, name)
    if found != image.digest:
        raise CheckFailed(f"{registry.reference}: brings {found}, not {image.digest} that was pushed", fix=WRONG_FIX)


def _result(
    reference: Reference, image: Layout, items: tuple[Outgoing, ...], states: Mapping[str, str], moved: int
) -> PushResult:
    return PushResult(
        reference=str(reference),
        layout=str(image.path),
        digest=image.digest,
        blobs=tuple(
            BlobState(name=item.name, digest=item.digest, size=item.size, state=states.get(item.digest, "there"))
            for item in items
        ),
        moved_bytes=moved,
    )
