"""An image as a bill of materials needs it: its root file system, the small files that say what is installed, ELF
facts.

Layers are read by :mod:`orbit.audit.images` and remembered by their digest; what is not among those facts (copyright
files, Orbit's own recipes in the image) is taken from the few layers that have it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from orbit.audit.facts import SharedObject, Tree, printable
from orbit.audit.files.texts import MAX_BYTES
from orbit.audit.images.image_source import ImageRef
from orbit.audit.images.layer_cache import LayerCache
from orbit.audit.images.layers import LayerFacts
from orbit.audit.images.opened import OpenImage, open_image
from orbit.audit.images.overlay import Source, Stacked, stack
from orbit.audit.installed.tree import resolve
from orbit.audit.run import without_collector
from orbit.core.console import Progress
from orbit.image.inspect.owners import Owners
from orbit.image.inspect.weigh import owners_of_image

COPYRIGHT = re.compile(r"^usr/share/doc/[^/]+/copyright$")
OWN_DATA = re.compile(r"/orbit/_data/(kernels/recipes|containers)/[^/]+\.toml$")
"""What the Orbit in the image knows about its kernels and its base."""
TIME = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z$")
NO_TIME = "1970-01-01T00:00:00Z"
"""Stands for the time of an image that states none, or none in UTC."""


class Created(msgspec.Struct, frozen=True):
    """The part of an image's configuration that says when it was made."""

    created: str | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """One image, read."""

    spec: str
    ref: ImageRef
    created: str
    tree: Tree
    texts: Mapping[str, bytes]
    """Small files by path: those of the audit's facts, copyright files, Orbit's own data."""
    objects: Mapping[str, SharedObject]
    """ELF files by path."""
    owners: Owners
    layers: Mapping[str, int]
    """Number of the layer of every regular file."""
    digests: Mapping[str, str]
    """sha256 of every regular file in RECORD's spelling, by path."""

    def read(self, path: str) -> bytes | None:
        """A small file, links followed; None when it is not there or was not kept."""
        if path in self.texts:
            return self.texts[path]
        found = resolve(self.tree, path)
        return self.texts.get(found) if found is not None else None

    def sha256(self, path: str) -> str:
        """Hex digest of a regular file, links followed; empty when there is none."""
        found = path if path in self.digests else resolve(self.tree, path)
        digest = self.digests.get(found or "", "")
        try:
            return base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex()
        except ValueError:
            return ""

    def exists(self, path: str) -> bool:
        """Whether there is anything at ``path``, links in its folders followed, the last one not."""
        if path in self.tree.entries:
            return True
        folder, _, name = path.rpartition("/")
        real = resolve(self.tree, folder) if folder else ""
        return real is not None and (f"{real}/{name}" if real else name) in self.tree.entries


def read_contents(spec: str, *, cache: Path | None, progress: Progress) -> Contents:
    """Read the image that ``spec`` names (see :func:`orbit.audit.images.opened.open_image`).

    Raises :class:`InputError` for what is no image or is damaged.
    """
    opened = open_image(spec, progress)
    if opened.remark:
        progress.step(opened.remark)
    numbers = range(len(opened.ref.layers))
    with without_collector():
        facts, _ = opened.facts(numbers, LayerCache(cache) if cache is not None else None, progress)
        return _assemble(opened, [facts[number] for number in numbers])


def _assemble(opened: OpenImage, layers: list[LayerFacts]) -> Contents:
    stacked = stack(layers)
    owners = owners_of_image(layers, stacked)
    digests = [layer.all_digests() for layer in layers]
    objects = [layer.all_objects() for layer in layers]
    texts = {
        path: text
        for path, (layer, member) in stacked.sources.items()
        if (text := layers[layer].texts.get(member)) is not None
    }
    texts |= _more_texts(opened, stacked)
    return Contents(
        spec=printable(opened.spec),
        ref=opened.ref,
        created=_created(opened.ref.config),
        tree=Tree(stacked.entries, stacked.links, (), (), rooted=True),
        texts=texts,
        objects={
            path: item
            for path, (layer, member) in stacked.sources.items()
            if (item := objects[layer].get(member)) is not None
        },
        owners=owners,
        layers={path: layer for path, (layer, _) in stacked.sources.items()},
        digests={path: digests[layer].get(member, "") for path, (layer, member) in stacked.sources.items()},
    )


def _more_texts(opened: OpenImage, stacked: Stacked) -> dict[str, bytes]:
    """The files that are no facts of the audit, by path; those that are too long are left out."""
    paths: dict[Source, str] = {
        source: path for path, source in stacked.sources.items() if COPYRIGHT.match(path) or OWN_DATA.search(path)
    }
    wanted: dict[int, set[int]] = {}
    for layer, member in paths:
        wanted.setdefault(layer, set()).add(member)
    return {
        paths[found.layer, found.number]: b"".join(map(bytes, found.content))
        for found in opened.members(wanted)
        if found.member.size <= MAX_BYTES
    }


def _created(config: bytes) -> str:
    try:
        said = msgspec.json.decode(config, type=Created).created or ""
    except msgspec.DecodeError:
        said = ""
    match = TIME.match(said)
    return f"{match[1]}Z" if match else NO_TIME
