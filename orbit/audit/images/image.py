"""Read all facts about an image: an OCI layout, an archive, or an image of an engine, without unpacking it.

Layers are read in parallel, each once, and put on each other in mind (:mod:`orbit.audit.images.overlay`); then the
image is an environment like any other, with the whole root file system as its tree. Every layer is compared with the
digest that names it; one that differs is refused, as nothing that was read of it could be believed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from orbit.audit.binary.dynamic import Export
from orbit.audit.facts import Distribution, Environment, SharedObject, Tree
from orbit.audit.files.objects import select_exports
from orbit.audit.files.texts import is_head_wanted, is_wanted
from orbit.audit.images.decompress import MAGIC_BYTES, PIECE_BYTES, codec_of, decompressed
from orbit.audit.images.image_layout import image_layout
from orbit.audit.images.image_source import FolderArchive, ImageRef, LayerRef, Place, TarArchive, read_image_ref
from orbit.audit.images.image_stream import read_stream
from orbit.audit.images.layer_cache import LayerCache
from orbit.audit.images.layer_worker import Request, blob_pieces, read_apart
from orbit.audit.images.layers import LayerFacts, unpack_exports
from orbit.audit.images.overlay import Source, Stacked, stack
from orbit.audit.installed.dists import owners_of, read_dists
from orbit.audit.installed.tree import resolve
from orbit.core import proc, tools
from orbit.core.console import Progress
from orbit.core.files import open_regular
from orbit.errors import InputError
from orbit.image.docker import require_engine
from orbit.profile.model import Profile

ARCHITECTURE = "amd64"
"""Of the images that are looked at; Orbit's locks are for this platform alone."""
FILES = ("oci", "docker-archive")
ENGINES: dict[str, Callable[[], Path]] = {
    "docker-daemon": lambda: require_engine().client,
    "podman": lambda: tools.find("podman"),
}
AGAIN = "get the image again: it was changed or cut short"


def read_image(spec: str, profile: Profile, progress: Progress, cache: Path | None = None) -> Environment:
    """All facts about the image that ``spec`` names.

    A path, or with its kind ``oci:PATH`` and ``docker-archive:PATH``; ``docker-daemon:NAME`` and ``podman:NAME`` for an
    image of an engine, which is read as it streams out. With ``cache`` (a folder) layers that were read before and have
    not changed since are taken from there; without it every byte is read and hashed.

    Raises :class:`InputError` for what is no image, is damaged, or holds no Python environment, and
    :class:`orbit.errors.MissingError` when the engine is not there.
    """
    kind, colon, name = spec.partition(":")
    if colon and kind in ENGINES:
        image, layers = _from_engine(spec, kind, name, progress)
        remembered = frozenset[int]()
    else:
        path = Path(name if colon and kind in FILES else spec)
        try:
            image, layers, remembered = _from_path(path, spec, progress, cache)
        except OSError as error:
            raise InputError(f"{spec}: {error.strerror or error}", fix="give an image that can be read") from None
    progress.step(f"{len(layers)} layers, {len(remembered)} of them remembered")
    return assemble(image, layers, remembered, profile)


def _from_engine(spec: str, kind: str, name: str, progress: Progress) -> tuple[ImageRef, list[LayerFacts]]:
    if name.startswith("-"):
        raise InputError(f"{spec}: not the name of an image", fix=f"write {kind}:NAME:TAG")
    client = ENGINES[kind]()
    argv: list[str | os.PathLike[str]] = [client, "save", name]
    progress.step(f"reading {name} as {kind} saves it")
    fix = f"is there an image of that name? ({client.name} images)"
    image, layers, remark = read_stream(
        lambda: proc.stream(argv, doing=f"reading the image {name}", fix=fix), spec, spec, ARCHITECTURE
    )
    if remark:
        progress.step(remark)
    return image, layers


def _from_path(
    path: Path, spec: str, progress: Progress, cache: Path | None
) -> tuple[ImageRef, list[LayerFacts], frozenset[int]]:
    """(the image, facts of its layers, numbers of those that were remembered)."""
    if path.is_dir():
        archive: FolderArchive | TarArchive = FolderArchive(path)
    elif not path.is_file():
        raise InputError(f"{spec}: no such file or folder", fix="give an image layout or archive")
    elif _codec(path) != "none":
        image, layers, remark = read_stream(lambda: _pieces(path), spec, spec, ARCHITECTURE)
        if remark:
            progress.step(remark)
        return image, layers, frozenset()
    else:
        archive = TarArchive(path)
    image, remark = read_image_ref(archive, spec, ARCHITECTURE)
    if remark:
        progress.step(remark)
    places = [_place(archive, ref) for ref in image.layers]
    memory = LayerCache(cache) if cache is not None else None
    layers, remembered = read_layers(image.layers, places, memory, progress)
    return image, layers, remembered


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


def _layer_stream(place: Place, ref: LayerRef) -> Iterator[bytes]:
    handle = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        request = Request(os.fsencode(place.path), place.offset, place.size, f"layer {ref.name}", unpacked=False)
        yield from decompressed(blob_pieces(handle, request), request.label)
    finally:
        os.close(handle)


def _codec(path: Path) -> str:
    with open_regular(path) as file:
        return codec_of(file.read(MAGIC_BYTES))


def _pieces(path: Path) -> Iterator[bytes]:
    with open_regular(path) as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def _place(archive: FolderArchive | TarArchive, ref: LayerRef) -> Place:
    place = archive.place(ref.name)
    if place is None:
        raise InputError(f"{archive.label}: {ref.name} is missing, and named as a layer", fix=AGAIN)
    if ref.size not in (-1, place.size):
        raise InputError(f"{archive.label}: {ref.name}: {place.size} bytes and not {ref.size}", fix=AGAIN)
    return place


def read_layers(
    refs: Sequence[LayerRef], places: Sequence[Place], memory: LayerCache | None, progress: Progress
) -> tuple[list[LayerFacts], frozenset[int]]:
    """(facts of the layers, lowest first; numbers of those taken from ``memory``). Raises :class:`InputError`."""
    found: dict[int, LayerFacts] = {}
    if memory is not None:
        for number, (ref, place) in enumerate(zip(refs, places, strict=True)):
            seen = memory.seen(place.path, place.offset, place.size)
            if seen is not None and _is_named(ref, seen.digest, seen.codec):
                facts = memory.load(seen.digest)
                if facts is not None:
                    found[number] = facts
    remembered = frozenset(found)
    missing = sorted(set(range(len(refs))) - remembered, key=lambda number: -places[number].size)
    total = sum(places[number].size for number in missing)
    progress.step(f"reading {len(missing)} layers ({total / 1e9:.2f} GB), {len(remembered)} remembered")
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
                progress.advance("reading layers", done, total)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [found[number] for number in range(len(refs))], remembered


def _read(ref: LayerRef, place: Place, memory: LayerCache | None, threads: bool) -> LayerFacts:
    """Read one layer, compare it with its digest, remember it."""
    path, label = os.fsencode(place.path), f"layer {ref.name}"
    request = Request(path, place.offset, place.size, label, not ref.digest, threads)
    reply = read_apart(request)
    if reply.facts is None or not _is_named(ref, reply.digest, reply.codec):
        raise InputError(f"{place.path}: layer {ref.name}: its content is not what the image says", fix=AGAIN)
    if memory is not None:
        try:
            memory.save(reply.digest, reply.facts)
            memory.remember(place.path, place.offset, place.size, reply.digest, reply.codec)
        except (OSError, UnicodeEncodeError):
            pass  # the cache only saves time
    return reply.facts


def _is_named(ref: LayerRef, digest: str, codec: str) -> bool:
    """Whether a layer has the digests that the image gives it.

    The diff id of a compressed layer is compared where nothing else names it: its blob's digest says as much.
    """
    named = f"sha256:{digest}" == (ref.digest or ref.diff_id)
    return named and (codec != "none" or ref.diff_id == f"sha256:{digest}")


class _Tables(Mapping[str, frozenset[Export]]):
    """Exported symbols by path, unpacked when they are asked for."""

    def __init__(self, packed: Mapping[str, bytes]) -> None:
        self._packed = packed

    def __getitem__(self, path: str) -> frozenset[Export]:
        return unpack_exports(self._packed[path])

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


class _Content:
    """What was read of the regular files of an image, by path."""

    def __init__(self, stacked: Stacked, layers: Sequence[LayerFacts]) -> None:
        self.sources = stacked.sources
        self.layers = layers
        self.digests = [layer.all_digests() for layer in layers]

    def each[T](self, columns: Sequence[Mapping[int, T]]) -> Iterator[tuple[str, T]]:
        """(path, what a column has of it) for all files of which it has something."""
        paths: dict[Source, list[str]] = {
            (layer, member): [] for layer, column in enumerate(columns) for member in column
        }
        for path, source in self.sources.items():
            if source in paths:
                paths[source].append(path)
        for (layer, member), named in paths.items():
            for path in named:
                yield path, columns[layer][member]

    def digest(self, path: str) -> str | None:
        """The digest of a regular file."""
        source = self.sources.get(path)
        return self.digests[source[0]].get(source[1]) if source is not None else None


def assemble(
    image: ImageRef, layers: Sequence[LayerFacts], remembered: frozenset[int], profile: Profile
) -> Environment:
    """The environment in an image whose layers were read. Raises :class:`InputError` when there is none."""
    stacked = stack(layers)
    tree = Tree(stacked.entries, stacked.links, (), (), rooted=True)
    content = _Content(stacked, layers)
    texts = dict(content.each([layer.texts for layer in layers]))
    objects = tuple(
        sorted(
            (item if item.path == path else _renamed(item, path)
             for path, item in content.each([layer.all_objects() for layer in layers])),
            key=lambda item: item.path,
        )
    )  # fmt: skip
    layout = image_layout(tree, objects, image.variables, texts, profile.python)
    names = [path for path in tree.entries if path.endswith(".dist-info") and path.rpartition("/")[0] in layout.sites]

    def read(path: str) -> bytes | None:
        found = resolve(tree, path)
        return texts.get(found) if found is not None else None

    dists = read_dists((path for path in names if tree.entries[path].is_folder), read)
    digests, num_remembered = _digests(dists, tree, content, remembered)
    heads = content.each([layer.heads for layer in layers])
    return Environment(
        layout=layout,
        tree=tree,
        dists=dists,
        objects=objects,
        exports=select_exports(objects, _Tables(dict(content.each([layer.exports for layer in layers])))),
        damaged=_damaged(content, layers),
        num_remembered=num_remembered,
        digests=digests,
        owners=owners_of(dists),
        kind="image",
        variables=image.variables,
        texts={path: text for path, text in texts.items() if is_wanted(path)}
        | {path: head for path, head in heads if is_head_wanted(path)},
        image=image.facts,
        origins={item.path: stacked.sources[item.path] for item in objects if item.containers},
    )


def _renamed(item: SharedObject, path: str) -> SharedObject:
    """The facts of a hard link: those of the file, under another name."""
    return replace(item, path=path)


def _digests(
    dists: Sequence[Distribution], tree: Tree, content: _Content, remembered: frozenset[int]
) -> tuple[dict[str, str], int]:
    """(digests by path of a RECORD line, how many of them were remembered).

    Layers are hashed with sha256 alone. What a RECORD lists with another hash was not compared, and says so.
    """
    found: dict[str, str] = {}
    count = 0
    for dist in dists:
        for row in dist.rows:
            if not row.digest:
                continue
            path = row.path if row.path in content.sources else resolve(tree, row.path)
            digest = content.digest(path) if path is not None else None
            if digest is None or path is None:
                continue
            found[row.path] = digest if row.algorithm == "sha256" else f"!{row.algorithm} is not read in images"
            count += content.sources[path][0] in remembered
    return found, count


def _damaged(content: _Content, layers: Sequence[LayerFacts]) -> dict[str, str]:
    """Why files could not be read, and members not unpacked, by path."""
    found = {path: why.decode("utf-8", "surrogateescape") for path, why in content.each([x.damaged for x in layers])}
    for number, layer in enumerate(layers):
        for path, why in layer.all_problems():
            found.setdefault(path or f"layer {number}", f"layer {number}: {why}")
    return found
