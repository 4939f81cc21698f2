"""Which paths differ between two root file systems. Pure functions over the facts of layers; contents by digest."""

from __future__ import annotations

import stat
from base64 import urlsafe_b64decode
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orbit.audit.facts import FileFact, printable
from orbit.audit.images.layers import LayerFacts, split
from orbit.audit.images.overlay import Source, Stacked, stack
from orbit.image.diff.records import FileSide
from orbit.image.inspect.owners import Owners
from orbit.image.inspect.weigh import owners_of_image

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFIFO: "fifo",
}


@dataclass(frozen=True, slots=True)
class Tree:
    """What the compared layers of one image make, laid on each other."""

    numbers: tuple[int, ...]
    """Of these layers in their image, lowest first."""
    titles: Mapping[int, str]
    """Names of layers by number."""
    stacked: Stacked
    digests: tuple[Mapping[int, str], ...]
    """sha256 in RECORD's spelling by member, for each layer."""
    owners: Owners
    hides: bool
    """Whether a layer hides something of lower ones: then those cannot be left out."""
    full: frozenset[str]
    """Folders with something in them."""

    def source(self, path: str) -> Source:
        """(number of the layer in its image, member) of a path."""
        fact = self.stacked.entries[path]
        return self.numbers[fact.stamp[0]], fact.stamp[1]

    def digest(self, path: str) -> str:
        """sha256 of a regular file in RECORD's spelling; empty for what has none."""
        place, member = self.stacked.entries[path].stamp[:2]
        return self.digests[place].get(member, "")

    def side(self, path: str) -> FileSide:
        """The path as a record."""
        fact = self.stacked.entries[path]
        digest = self.digest(path) if fact.is_file else ""
        return FileSide(
            kind=kind_of(fact),
            mode=f"{stat.S_IMODE(fact.mode):04o}",
            uid=fact.uid,
            gid=fact.gid,
            size=fact.size,
            target=printable(self.stacked.links.get(path, "")),
            sha256=urlsafe_b64decode(f"{digest}=").hex() if digest else "",
            layer=self.titles[self.source(path)[0]],
        )


def kind_of(fact: FileFact) -> str:
    """What a path is."""
    return KINDS.get(stat.S_IFMT(fact.mode), "other")


def make_tree(layers: Mapping[int, LayerFacts], titles: Sequence[str]) -> Tree:
    """Lay ``layers`` (by number) on each other."""
    numbers = tuple(sorted(layers))
    chosen = [layers[number] for number in numbers]
    stacked = stack(chosen)
    return Tree(
        numbers=numbers,
        titles=dict(enumerate(titles)),
        stacked=stacked,
        digests=tuple(layer.all_digests() for layer in chosen),
        owners=owners_of_image(chosen, stacked),
        hides=any(split(layer.whiteouts) or split(layer.opaque) for layer in chosen),
        full=frozenset(path.rpartition("/")[0] for path in stacked.entries if path),
    )


class Difference(NamedTuple):
    """One path that differs."""

    path: str
    change: str
    """As in :class:`orbit.image.diff.records.FileDifference`."""
    aspects: tuple[str, ...] = ()
    before: str = ""
    """The left name of a renamed file."""


@dataclass(slots=True)
class Differences:
    """All paths that differ."""

    found: list[Difference] = field(default_factory=list)
    equal: int = 0
    times: int = 0
    """Files that differ in their time alone."""


def compare_trees(left: Tree, right: Tree, pairs: Mapping[int, int]) -> Differences:
    """What differs; ``pairs`` are right numbers of layers by left number."""
    result = Differences()
    one, two = left.stacked.entries, right.stacked.entries
    for path in sorted(one.keys() | two.keys()):
        if path not in one or path not in two:
            tree = left if path in one else right
            if not (tree.stacked.entries[path].is_folder and path in tree.full):
                result.found.append(Difference(path, "removed" if path in one else "added"))
            continue
        aspects = tuple(_aspects(left, right, path))
        if aspects:
            result.found.append(Difference(path, "changed", aspects))
        elif not one[path].is_folder and pairs.get(left.source(path)[0]) != right.source(path)[0]:
            result.found.append(Difference(path, "moved", ("layer",)))
        else:
            result.equal += 1
            result.times += one[path].stamp[2] != two[path].stamp[2] and one[path].is_file
    result.found = list(_renamed(left, right, result.found))
    return result


def _aspects(left: Tree, right: Tree, path: str) -> Iterator[str]:
    one, two = left.stacked.entries[path], right.stacked.entries[path]
    if stat.S_IFMT(one.mode) != stat.S_IFMT(two.mode):
        yield "kind"
    elif one.is_file and (one.size != two.size or left.digest(path) != right.digest(path)):
        yield "content"
    elif one.is_link and left.stacked.links.get(path) != right.stacked.links.get(path):
        yield "link"
    if stat.S_IMODE(one.mode) != stat.S_IMODE(two.mode) and not (one.is_link and two.is_link):
        yield "mode"
    if (one.uid, one.gid) != (two.uid, two.gid):
        yield "owner"


def _renamed(left: Tree, right: Tree, found: list[Difference]) -> Iterator[Difference]:
    """The same, with files that only got another name as one difference and not two."""
    waiting: dict[str, list[str]] = defaultdict(list)
    for item in found:
        fact = left.stacked.entries.get(item.path)
        if item.change == "removed" and fact is not None and fact.is_file and fact.size:
            waiting[left.digest(item.path)].append(item.path)
    names: dict[str, str] = {}
    for item in found:
        fact = right.stacked.entries.get(item.path)
        if item.change == "added" and fact is not None and fact.is_file and fact.size:
            candidates = waiting.get(right.digest(item.path))
            if candidates:
                base = item.path.rpartition("/")[2]
                chosen = next((path for path in candidates if path.rpartition("/")[2] == base), candidates[0])
                candidates.remove(chosen)
                names[item.path] = chosen
    gone = set(names.values())
    for item in found:
        if item.change == "added" and item.path in names:
            yield Difference(item.path, "renamed", (), names[item.path])
        elif item.change != "removed" or item.path not in gone:
            yield item


def stream_causes(left: LayerFacts, right: LayerFacts) -> tuple[str, ...]:
    """Why two layers with equal files are not the same tar stream."""
    orders, times = [], []
    for layer in (left, right):
        members = sorted((entry.number, path, entry.mtime) for path, entry in layer.entries() if entry.number >= 0)
        orders.append([path for _, path, _ in members])
        times.append({path: time for _, path, time in members})
    found = []
    if sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1]:
        found.append("member-order")
    if any(times[1].get(path, time) != time for path, time in times[0].items()):
        found.append("member-date")
    return tuple(found) or ("archive-form",)
