"""An image out of a registry into an OCI layout: every byte checked, nothing fetched twice, nothing half-made.

While blobs come they lie in ``.NAME.pull`` beside the layout; a run that broke off leaves that folder, and the next one
goes on from there.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from orbit.core.amounts import format_bytes
from orbit.core.console import Progress
from orbit.core.files import (
    link_or_copy,
    remove_tree,
    replace_folder,
    require_free,
    sha256_file,
    sync_folder,
    write_atomic,
)
from orbit.core.records import Record
from orbit.errors import InputError, RefusedError
from orbit.image.oci import (
    LAYOUT_VERSION,
    MANIFEST_TYPE,
    NAME_KEY,
    REF_KEY,
    Descriptor,
    Index,
    Layout,
    Marker,
    encode,
    read_layout,
)
from orbit.image.registry.documents import RemoteImage, read_remote
from orbit.image.registry.download import PARTIAL, fetch_blob
from orbit.image.registry.reference import Reference, parse_reference
from orbit.image.registry.session import PATIENCE, Patience, Registry
from orbit.image.registry.transfer import JOBS, BlobState, Meter, run_all

SCHEMA = 1
PLATFORM = "linux/amd64"


class PullResult(Record, frozen=True, kw_only=True):
    """What a pull did, or (:func:`plan_pull`) would do."""

    schema: int = SCHEMA
    reference: str
    layout: str
    digest: str
    """Of the manifest in the layout."""
    remote_digest: str
    """Of the manifest in the registry; another one when that was docker's."""
    index: str
    """Of the index the image was chosen from; empty when there was none."""
    blobs: tuple[BlobState, ...]
    moved_bytes: int
    """Bytes that came over the network; of a plan: that would."""


def pull_layout(reference: str, out: Path, *, progress: Progress, plain_http: bool = False) -> Layout:
    """Make ``out`` the layout of the image that ``reference`` names, for linux/amd64. See :func:`pull`."""
    pull(parse_reference(reference), out, progress=progress, plain_http=plain_http)
    return read_layout(out)


def plan_pull(
    reference: Reference, out: Path, *, progress: Progress, platform: str = PLATFORM, plain_http: bool = False
) -> PullResult:
    """What :func:`pull` would do. Reads manifest and configuration; sizes are believed, layers are not read."""
    _check_place(out)
    with Registry(reference, plain_http=plain_http, progress=progress) as registry:
        image = read_remote(registry, platform)
    places = (_waiting(out) / "blobs" / "sha256", out / "blobs" / "sha256")
    missing = {item.digest for item in image.blobs if not any(_sized(place / item.hex, item) for place in places)}
    left = 0
    for item in image.blobs:
        partial = places[0] / f"{item.hex}{PARTIAL}"
        if item.digest in missing:
            left += item.size - (min(item.size, partial.stat().st_size) if partial.is_file() else 0)
    return _result(reference, out, image, missing, word="missing", moved=left)


def pull(
    reference: Reference,
    out: Path,
    *,
    progress: Progress,
    platform: str = PLATFORM,
    plain_http: bool = False,
    jobs: int = JOBS,
    patience: Patience = PATIENCE,
) -> PullResult:
    """Make ``out`` the layout of the image.

    Blobs that ``out`` or a broken-off pull has are read, checked and kept. ``out`` changes in one step, when everything
    is there. Raises :class:`InputError` for a place that holds something else and for what is no image,
    :class:`MissingError` when the registry or the image cannot be reached, :class:`CheckFailed` when what comes is not
    what was named, :class:`RefusedError` when access is denied, the disk is too small or another pull is at work there.
    """
    _check_place(out)
    with Registry(reference, plain_http=plain_http, patience=patience, progress=progress) as registry:
        image = read_remote(registry, platform)
        with _owned(_waiting(out)) as place, _kept_if_useful(place, out):
            missing, moved = _fill(registry, image, place, out, jobs)
            _finish(place, image, reference)
            read_layout(place)
            replace_folder(place, out)
    return _result(reference, out, image, missing, word="moved", moved=moved)


def _fill(registry: Registry, image: RemoteImage, place: Path, out: Path, jobs: int) -> tuple[set[str], int]:
    """Have every blob of the image in ``place``; gives (digests that were fetched, bytes that came)."""
    blobs, progress = place / "blobs" / "sha256", registry.progress
    blobs.mkdir(parents=True, exist_ok=True)
    missing = [item for item in image.blobs if not _have(item, blobs, out / "blobs" / "sha256", progress)]
    total = sum(item.size for item in missing)
    require_free(blobs, total - _partly(missing, blobs), "the pull")
    text = f"{len(missing)} of {len(image.blobs)} blobs to fetch, {format_bytes(total)}"
    progress.step(f"{registry.reference}: {text}")
    meter = Meter(progress, "pulling", total)
    run_all(registry, [functools.partial(fetch_blob, registry, item, blobs, meter) for item in missing], jobs=jobs)
    return {item.digest for item in missing}, meter.moved


def _check_place(out: Path) -> None:
    if os.path.lexists(out) and not (out / "oci-layout").is_file() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: exists and is not an OCI layout", fix="choose another place, or remove it")


def _waiting(out: Path) -> Path:
    return out.with_name(f".{out.name}.pull")


@contextlib.contextmanager
def _owned(folder: Path) -> Iterator[Path]:
    """Be the only process that fills ``folder``. The lock is on the folder itself and moves with it."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue  # it became somebody's layout just now
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.exists() and os.path.samestat(os.fstat(handle), os.stat(folder)):
                yield folder
                return
        except BlockingIOError:
            raise RefusedError(f"{folder}: another pull is at work there", fix="wait for it to end") from None
        finally:
            os.close(handle)


@contextlib.contextmanager
def _kept_if_useful(place: Path, out: Path) -> Iterator[None]:
    """When the block fails, ``place`` stays for the next run only if it has something that ``out`` does not have."""
    try:
        yield
    except BaseException:
        blobs, older = place / "blobs" / "sha256", out / "blobs" / "sha256"
        came = blobs.iterdir() if blobs.is_dir() else ()
        if not any(file.stat().st_size and not (older / file.name).exists() for file in came):
            remove_tree(place)
        raise


def _sized(path: Path, item: Descriptor) -> bool:
    return path.is_file() and path.stat().st_size == item.size


def _have(item: Descriptor, blobs: Path, older: Path, progress: Progress) -> bool:
    """Whether ``blobs`` has the blob, or can have it from the layout that is there; what is damaged is deleted."""
    file = blobs / item.hex
    for source in (file, older / item.hex):
        if not _sized(source, item):
            continue
        progress.step(f"checking {item.digest[:19]}, which is there already")
        if f"sha256:{sha256_file(source)}" == item.digest:
            link_or_copy(source, file)
            return True
        if source == file:
            file.unlink()
    return False


def _partly(items: list[Descriptor], blobs: Path) -> int:
    files = (blobs / f"{item.hex}{PARTIAL}" for item in items)
    return sum(file.stat().st_size for file in files if file.is_file())


def _finish(place: Path, image: RemoteImage, reference: Reference) -> None:
    """Write the documents; remove what belongs to another image of an earlier, broken-off pull."""
    described = Descriptor(
        media_type=MANIFEST_TYPE,
        digest=local_digest(image),
        size=len(image.data),
        annotations={REF_KEY: f"{reference.host}/{reference.repository}{reference.tag and f':{reference.tag}'}"},
    )
    blobs = place / "blobs" / "sha256"
    keep = {described.hex, *(item.hex for item in image.blobs)}
    for file in blobs.iterdir():
        if file.name not in keep:
            file.unlink()
    write_atomic(blobs / described.hex, image.data)
    write_atomic(place / "index.json", encode(Index(manifests=(described,))))
    write_atomic(place / "oci-layout", encode(Marker(image_layout_version=LAYOUT_VERSION)))
    sync_folder(blobs)


def local_digest(image: RemoteImage) -> str:
    """The digest of the manifest as the layout has it."""
    return f"sha256:{hashlib.sha256(image.data).hexdigest()}"


def _result(
    reference: Reference, out: Path, image: RemoteImage, missing: set[str], *, word: str, moved: int
) -> PullResult:
    names = {image.manifest.config.digest: "config"}
    for number, layer in enumerate(image.manifest.layers):
        names.setdefault(layer.digest, layer.annotations.get(NAME_KEY, str(number)))
    return PullResult(
        reference=str(reference),
        layout=str(out),
        digest=local_digest(image),
        remote_digest=image.digest,
        index=image.index,
        blobs=tuple(
            BlobState(
                name=names[item.digest],
                digest=item.digest,
                size=item.size,
                state=word if item.digest in missing else "there",
            )
            for item in image.blobs
        ),
        moved_bytes=moved,
    )
