"""Layers on each other: what a container of the image sees, and which layer each path comes from.

The rules are those of the OCI image specification 1.1 (image layer filesystem changeset) as engines with an overlay
apply them: every layer is unpacked by itself and then laid over the lower ones. A folder on a folder is merged, with
the modes of the upper one; everything else replaces what is below it, also a folder on a link to a folder: an image
with ``lib -> usr/lib`` and a layer that brings ``lib/x`` loses all of ``usr/lib`` under that name. A whiteout hides one
path of lower layers, an opaque folder all they have in it, wherever the mark stands in its layer.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass

from orbit.audit.facts import FileFact
from orbit.audit.images.layers import IMPLIED, Entry, LayerFacts, split

type Source = tuple[int, int]
"""Number of a layer, lowest first, and of the member in it."""


@dataclass(frozen=True, slots=True)
class Stacked:
    """The root file system of an image."""

    entries: dict[str, FileFact]
    """By path; the root is the empty path. The stamp of a fact is (layer, member, time, 0): hard links share it."""
    links: dict[str, str]
    sources: dict[str, Source]
    """Where the content of every regular file comes from."""


def stack(layers: Sequence[LayerFacts]) -> Stacked:
    """Lay ``layers``, lowest first, on each other."""
    merged = _Merged()
    for number, layer in enumerate(layers):
        for path in split(layer.whiteouts):
            merged.remove(path)
        for path in split(layer.opaque):
            merged.remove_below(path)
        merged.lay(number, layer)
    return merged.result()


class _Merged:
    """The layers so far."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, Entry]] = {}
        self.names: dict[str, dict[str, None]] = {}
        """Names in every folder that has or had any."""

    def lay(self, number: int, layer: LayerFacts) -> None:
        """Put ``layer`` on top."""
        found, names = self.found, self.names
        for path, entry in layer.entries():
            old = found.get(path)
            if old is None:
                folder, _, name = path.rpartition("/")
                if path:
                    names.setdefault(folder, {})[name] = None
            elif old[1].mode & 0o170000 == stat.S_IFDIR:
                if not stat.S_ISDIR(entry.mode):
                    self.remove_below(path)
                elif entry.number == IMPLIED:
                    continue
            found[path] = (number, entry)

    def remove(self, path: str) -> None:
        """Take away ``path`` and everything below it."""
        if path in self.found:
            self.remove_below(path)
            del self.found[path]
            folder, _, name = path.rpartition("/")
            self.names.get(folder, {}).pop(name, None)

    def remove_below(self, path: str) -> None:
        """Take away everything below the folder ``path``."""
        pending = [path]
        while pending:
            folder = pending.pop()
            for name in self.names.pop(folder, ()):
                below = f"{folder}/{name}" if folder else name
                if self.found.pop(below, None) is not None:
                    pending.append(below)

    def result(self) -> Stacked:
        """What is there now."""
        entries: dict[str, FileFact] = {}
        links: dict[str, str] = {}
        sources: dict[str, Source] = {}
        for path, (number, entry) in self.found.items():
            stamp = (number, entry.number, entry.mtime * 1_000_000_000, 0)
            entries[path] = FileFact(entry.mode, entry.uid, entry.gid, entry.size, stamp)
            kind = entry.mode & 0o170000
            if kind == stat.S_IFREG:
                sources[path] = (number, entry.number)
            elif kind == stat.S_IFLNK:
                links[path] = entry.target
        return Stacked(entries, links, sources)
