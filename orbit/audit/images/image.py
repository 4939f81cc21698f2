"""Read all facts about an image: an OCI layout, an archive, or an image of an engine, without unpacking it.

Layers are read in parallel, each once, and put on each other in mind (:mod:`orbit.audit.images.overlay`); then the
image is an environment like any other, with the whole root file system as its tree. Every layer is compared with the
digest that names it; one that differs is refused, as nothing that was read of it could be believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from orbit.audit.binary.dynamic import Export
from orbit.audit.facts import Distribution, Environment, SharedObject, Tree
from orbit.audit.files.objects import select_exports
from orbit.audit.files.texts import is_head_wanted, is_wanted
from orbit.audit.images.image_layout import image_layout
from orbit.audit.images.image_source import ImageRef
from orbit.audit.images.layer_cache import LayerCache
from orbit.audit.images.layers import LayerFacts, unpack_exports
from orbit.audit.images.opened import open_image
from orbit.audit.images.overlay import Source, Stacked, stack
from orbit.audit.installed.dists import owners_of, read_dists
from orbit.audit.installed.tree import resolve
from orbit.core.console import Progress
from orbit.profile.model import Profile


def read_image(spec: str, profile: Profile, progress: Progress, cache: Path | None = None) -> Environment:
    """All facts about the image that ``spec`` names.

    A path, or with its kind ``oci:PATH`` and ``docker-archive:PATH``; ``docker-daemon:NAME`` and ``podman:NAME`` for an
    image of an engine, which is read as it streams out. With ``cache`` (a folder) layers that were read before and have
    not changed since are taken from there; without it every byte is read and hashed.

    Raises :class:`InputError` for what is no image, is damaged, or holds no Python environment, and
    :class:`orbit.errors.MissingError` when the engine is not there.
    """
    opened = open_image(spec, progress)
    if opened.remark:
        progress.step(opened.remark)
    numbers = range(len(opened.ref.layers))
    memory = LayerCache(cache) if cache is not None else None
    facts, remembered = opened.facts(numbers, memory, progress)
    layers = [facts[number] for number in numbers]
    progress.step(f"{len(layers)} layers, {len(remembered)} of them remembered")
    return assemble(opened.ref, layers, remembered, profile)


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
