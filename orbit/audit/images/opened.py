"""An image opened: what its documents say, and its layers as facts or as streams, again and again, or once.

Layers of a layout, and of an archive that is not compressed, lie on disk: each can be read alone and again, in parallel
with others, and its facts are remembered. An image of an engine and a compressed archive stream by: they are read
whole.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from orbit.audit.facts import printable
from orbit.audit.images.decompress import MAGIC_BYTES, PIECE_BYTES, codec_of, decompressed
from orbit.audit.images.image_source import FolderArchive, ImageRef, LayerRef, Place, TarArchive, read_image_ref
from orbit.audit.images.image_stream import read_stream
from orbit.audit.images.layer_cache import LayerCache
from orbit.audit.images.layer_worker import Request, blob_pieces, read_apart
from orbit.audit.images.layers import LayerFacts
from orbit.audit.images.tar_stream import Member, TarStream, clean
from orbit.core import proc, tools
from orbit.core.amounts import format_bytes
from orbit.core.console import BYTES, Progress
from orbit.core.files import open_regular
from orbit.errors import CommandFailed, InputError
from orbit.image.damage import MISSING, DamagedImage
from orbit.image.docker import require_engine

ARCHITECTURE = "amd64"
"""Of the images that are looked at; Orbit's locks are for this platform alone."""
FILES = ("oci", "docker-archive")
ENGINES: dict[str, Callable[[], Path]] = {
    "docker-daemon": lambda: require_engine().client,
    "podman": lambda: tools.find("podman"),
}
NO_SUCH_IMAGE = ("no such image", "reference does not exist", "image not known", "failed to find image")
"""What docker and podman say of a name they do not know."""
type Pieces = Callable[[], Generator[bytes]]
"""Begins a stream from its start."""


class Found(NamedTuple):
    """A member of a layer as it goes by. ``content`` is to be used before the next one is asked for."""

    layer: int
    number: int
    """Of the member in its layer, as facts count them."""
    member: Member
    content: Iterator[memoryview]


@dataclass(frozen=True, slots=True)
class OpenImage:
    """An image whose documents were read."""

    spec: str
    ref: ImageRef
    remark: str
    """On what was chosen, of several platforms; else empty."""
    places: tuple[Place, ...] = ()
    """Where its layers lie, lowest first; none for an image that streams by."""
    stream: Pieces | None = None
    """The whole archive, for an image that streams by."""
    streamed: tuple[LayerFacts, ...] = ()
    """The facts of all layers, for an image that streams by."""

    def facts(
        self, wanted: Collection[int], memory: LayerCache | None, progress: Progress
    ) -> tuple[dict[int, LayerFacts], frozenset[int]]:
        """(facts of the ``wanted`` layers by number, numbers of those that were remembered). Raises
        :class:`DamagedImage` for a layer that is not what the image says."""
        if self.stream is not None:
            return {number: self.streamed[number] for number in wanted}, frozenset()
        chosen = sorted(wanted)
        layers, remembered = read_layers(
            [self.ref.layers[number] for number in chosen], [self.places[number] for number in chosen], memory, progress
        )
        return dict(zip(chosen, layers, strict=True)), frozenset(chosen[place] for place in remembered)

    def remembered(self, number: int, memory: LayerCache) -> LayerFacts | None:
        """The facts of a layer if they are remembered; nothing is read for them."""
        if self.stream is not None:
            return self.streamed[number]
        return _recall(self.ref.layers[number], self.places[number], memory)

    def layer_stream(self, number: int) -> Generator[bytes]:
        """The tar stream of a layer that lies on disk."""
        return _layer_stream(self.places[number], self.ref.layers[number])

    def members(self, wanted: Mapping[int, Collection[int]]) -> Generator[Found]:
        """The ``wanted`` members (numbers by layer) as they go by, layer after layer."""
        if self.stream is None:
            for layer in sorted(wanted):
                with closing(self.layer_stream(layer)) as pieces:
                    yield from _chosen(TarStream(pieces, self.ref.layers[layer].name), layer, wanted[layer])
            return
        files = {clean(self.ref.layers[layer].name): layer for layer in wanted}
        with closing(self.stream()) as whole:
            outer = TarStream(decompressed(whole, self.spec), self.spec)
            for file in outer:
                layer = files.pop(file.path, -1)
                if layer >= 0:
                    chunks = decompressed(map(bytes, outer.content()), file.path)
                    yield from _chosen(TarStream(chunks, file.path), layer, wanted[layer])


def _chosen(stream: TarStream, layer: int, wanted: Collection[int]) -> Iterator[Found]:
    left = set(wanted)
    for number, member in enumerate(stream):
        if number in left:
            yield Found(layer, number, member, stream.content())
            left.discard(number)
        if not left:
            return


def open_image(spec: str, progress: Progress) -> OpenImage:
    """Open the image that ``spec`` names: a path, or with its kind ``oci:PATH`` and ``docker-archive:PATH``;
    ``docker-daemon:NAME`` and ``podman:NAME`` for an image of an engine.

    Raises :class:`InputError` for what is no image (:class:`DamagedImage` for one with damaged documents), and
    :class:`orbit.errors.MissingError` when the engine is not there.
    """
    kind, colon, name = spec.partition(":")
    if colon and kind in ENGINES:
        try:
            return _streaming(spec, _engine_stream(spec, kind, name, progress))
        except CommandFailed as error:
            if any(sign in error.tail.lower() for sign in NO_SUCH_IMAGE):
                raise InputError(f"{spec}: {kind} has no image of that name", fix=error.fix) from None
            raise
    path = Path(name if colon and kind in FILES else spec)
    try:
        if path.is_dir():
            archive: FolderArchive | TarArchive = FolderArchive(path)
        elif not path.is_file():
            raise InputError(f"{spec}: no such file or folder", fix="give an image layout or archive")
        elif _codec(path) != "none":
            return _streaming(spec, lambda: _pieces(path))
        else:
            archive = TarArchive(path)
        image, remark = read_image_ref(archive, spec, ARCHITECTURE)
        return OpenImage(spec, image, remark, tuple(_place(archive, ref) for ref in image.layers))
    except OSError as error:
        raise InputError(f"{spec}: {error.strerror or error}", fix="give an image that can be read") from None


def _engine_stream(spec: str, kind: str, name: str, progress: Progress) -> Pieces:
    if name.startswith("-"):
        raise InputError(f"{spec}: not the name of an image", fix=f"write {kind}:NAME:TAG")
    client = ENGINES[kind]()
    argv: list[str | os.PathLike[str]] = [client, "save", name]
    progress.step(f"reading {name} as {kind} saves it")
    fix = f"is there an image of that name? ({client.name} images)"
    return lambda: proc.stream(argv, doing=f"reading the image {name}", fix=fix)


def _streaming(spec: str, stream: Pieces) -> OpenImage:
    image, layers, remark = read_stream(stream, spec, spec, ARCHITECTURE)
    return OpenImage(spec, image, remark, stream=stream, streamed=tuple(layers))


def open_layers(spec: str) -> tuple[Callable[[], Iterator[bytes]], ...]:
    """For each layer of an image on disk, lowest first, what gives its tar stream.

    Raises :class:`InputError` for an image that only streams by (of an engine, or in a compressed archive).
    """
    kind, colon, name = spec.partition(":")
    path = Path(name if colon and kind in FILES else spec)
    if (colon and kind in ENGINES) or (path.is_file() and _codec(path) != "none"):
        raise InputError(
            f"{spec}: its layers can only be read once, as they stream out",
            fix="give the image as an uncompressed archive or a layout: docker save NAME -o FILE",
        )
    archive: FolderArchive | TarArchive = FolderArchive(path) if path.is_dir() else TarArchive(path)
    image, _remark = read_image_ref(archive, spec, ARCHITECTURE)
    return tuple(functools.partial(_layer_stream, _place(archive, ref), ref) for ref in image.layers)


def _layer_stream(place: Place, ref: LayerRef) -> Generator[bytes]:
    handle = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        request = Request(os.fsencode(place.path), place.offset, place.size, f"layer {ref.name}", unpacked=False)
        yield from decompressed(blob_pieces(handle, request), request.label)
    finally:
        os.close(handle)


def _codec(path: Path) -> str:
    with open_regular(path) as file:
        return codec_of(file.read(MAGIC_BYTES))


def _pieces(path: Path) -> Generator[bytes]:
    with open_regular(path) as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def _place(archive: FolderArchive | TarArchive, ref: LayerRef) -> Place:
    place = archive.place(ref.name)
    if place is None or ref.size not in (-1, place.size):
        raise DamagedImage(archive.label, ref.digest or ref.diff_id, MISSING, layer=printable(ref.title or ref.name))
    return place


def read_layers(
    refs: Sequence[LayerRef], places: Sequence[Place], memory: LayerCache | None, progress: Progress
) -> tuple[list[LayerFacts], frozenset[int]]:
    """(facts of the layers, lowest first; numbers of those taken from ``memory``). Raises as :func:`_read`."""
    found: dict[int, LayerFacts] = {}
    if memory is not None:
        for number, (ref, place) in enumerate(zip(refs, places, strict=True)):
            facts = _recall(ref, place, memory)
            if facts is not None:
                found[number] = facts
    remembered = frozenset(found)
    missing = sorted(set(range(len(refs))) - remembered, key=lambda number: -places[number].size)
    total = sum(places[number].size for number in missing)
    progress.step(f"reading {len(missing)} layers ({format_bytes(total)}), {len(remembered)} remembered")
    done = 0
    processors = max(1, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(processors) as pool:
        tasks = {
            pool.submit(_read, refs[number], places[number], memory, places[number].size * processors > total): number
            for number in missing
        }
        try:
            for task in as_completed(tasks):
                found[tasks[task]] = task.result()
                done += places[tasks[task]].size
                progress.advance("reading layers", done, total, BYTES)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [found[number] for number in range(len(refs))], remembered


def _recall(ref: LayerRef, place: Place, memory: LayerCache) -> LayerFacts | None:
    """The remembered facts of a layer, if its file is as it was when they were read."""
    seen = memory.seen(place.path, place.offset, place.size)
    return memory.load(seen.digest) if seen is not None and _is_named(ref, seen.digest, seen.codec) else None


def _read(ref: LayerRef, place: Place, memory: LayerCache | None, threads: bool) -> LayerFacts:
    """Read one layer, compare it with its digest, remember it. Raises :class:`DamagedImage`, and :class:`InputError`
    for what is no layer although its digest is right."""
    path, label = os.fsencode(place.path), f"layer {ref.name}"
    request = Request(path, place.offset, place.size, label, not ref.digest, threads)
    try:
        reply = read_apart(request)
    except InputError:
        if ref.digest and _digest(place) != ref.digest:
            raise _damaged(ref, place) from None
        raise
    if reply.facts is None or not _is_named(ref, reply.digest, reply.codec):
        raise _damaged(ref, place)
    if memory is not None:
        try:
            memory.save(reply.digest, reply.facts)
            memory.remember(place.path, place.offset, place.size, reply.digest, reply.codec)
        except (OSError, UnicodeEncodeError):
            pass  # the cache only saves time
    return reply.facts


def _damaged(ref: LayerRef, place: Place) -> DamagedImage:
    layout = place.path.parents[2] if place.path.parent.name == "sha256" else place.path
    return DamagedImage(layout, ref.digest or ref.diff_id, layer=printable(ref.title or ref.name))


def _digest(place: Place) -> str:
    """``sha256:`` of a part of a file, as far as it goes."""
    state = hashlib.sha256()
    with contextlib.suppress(InputError), open_regular(place.path) as file:
        request = Request(os.fsencode(place.path), place.offset, place.size, "the layer", unpacked=False)
        for piece in blob_pieces(file.fileno(), request):
            state.update(piece)
    return f"sha256:{state.hexdigest()}"


def _is_named(ref: LayerRef, digest: str, codec: str) -> bool:
    """Whether a layer has the digests that the image gives it.

    The diff id of a compressed layer is compared where nothing else names it: its blob's digest says as much.
    """
    named = f"sha256:{digest}" == (ref.digest or ref.diff_id)
    return named and (codec != "none" or ref.diff_id == f"sha256:{digest}")
