"""Compare two images, from the outside in: documents, layers, files, contents. What is equal is not read."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from orbit.audit.facts import printable
from orbit.audit.images.layer_cache import LayerCache
from orbit.audit.images.layers import LayerFacts
from orbit.audit.images.opened import OpenImage, open_image
from orbit.audit.reports.diff import Change
from orbit.audit.reports.view import plural
from orbit.audit.run import without_collector
from orbit.core.console import Progress
from orbit.core.findings import Skipped
from orbit.image.diff.content import compare_content
from orbit.image.diff.documents import compare_configs, compare_manifests
from orbit.image.diff.fetch import Wanted, fetch
from orbit.image.diff.groups import make_groups
from orbit.image.diff.pair import Pair, pair_layers
from orbit.image.diff.records import ContentDifference, Group, ImageDiff, ImageSide, LayerDifference
from orbit.image.diff.trees import Differences, compare_trees, make_tree, stream_causes
from orbit.image.inspect.look import layer_rows
from orbit.image.layers import COMPILED

OURS = "io.orbit."
"""Labels of images that Orbit made: in these no path is in two layers."""
EQUAL = frozenset({"same", "recompressed", "reordered"})
"""Layers with the same tar stream."""
FORM = "(how the document is written)"


@dataclass(frozen=True, slots=True)
class Options:
    """How far to look."""

    whole: bool = False
    """Read equal layers, too."""
    quick: bool = False
    """Compare files by digest and leave their contents alone."""
    cache: Path | None = None
    """Folder of remembered layers."""


def diff_images(left: str, right: str, options: Options, progress: Progress) -> ImageDiff:
    """Compare the images that two specs name (see :func:`orbit.audit.images.opened.open_image`).

    Raises :class:`orbit.errors.InputError` for what is no image, or not the one it says.
    """
    images = open_image(left, progress), open_image(right, progress)
    for opened in images:
        if opened.remark:
            progress.step(opened.remark)
    pairs = pair_layers(images[0].ref.layers, images[1].ref.layers)
    if all(pair.change in EQUAL for pair in pairs) and not options.whole:
        return _result(images, pairs, _Found())
    with without_collector():
        return _result(images, pairs, _compare(images, pairs, options, progress))


@dataclass(frozen=True, slots=True)
class _Found:
    """What came of comparing files."""

    groups: tuple[Group, ...] = ()
    times: int = 0
    causes: Mapping[Pair, tuple[str, ...]] = field(default_factory=dict)
    """Why the streams of changed layers differ."""
    read: frozenset[Pair] = frozenset()
    """Layers whose files were compared."""
    skipped: tuple[Skipped, ...] = ()


type _Images = tuple[OpenImage, OpenImage]


class _Comparison:
    """Layers of two images that are read and laid on each other."""

    def __init__(self, images: _Images, pairs: Sequence[Pair], options: Options, progress: Progress) -> None:
        self.images, self.pairs, self.options, self.progress = images, pairs, options, progress
        self.memory = LayerCache(options.cache) if options.cache is not None else None
        self.facts: tuple[dict[int, LayerFacts], dict[int, LayerFacts]] = ({}, {})
        self.unread = [pair for pair in pairs if pair.change in EQUAL and not options.whole]

    def read(self, pairs: Collection[Pair]) -> None:
        """Read the layers of ``pairs``; a stream that both sides have is read once."""
        numbers = {pair.left for pair in pairs if pair.left is not None}
        self.facts[0].update(self._slim(0, numbers))
        both = {pair.right: pair.left for pair in pairs if pair.change in EQUAL}
        numbers = {pair.right for pair in pairs if pair.right is not None and pair.right not in both}
        self.facts[1].update(self._slim(1, numbers))
        for right, left in both.items():
            assert right is not None
            assert left is not None
            self.facts[1][right] = self.facts[0][left]

    def _slim(self, side: int, numbers: Collection[int]) -> dict[int, LayerFacts]:
        """Facts without what is not compared by them: device code and symbols."""
        found, _ = self.images[side].facts(numbers, self.memory, self.progress) if numbers else ({}, frozenset())
        return {
            number: msgspec.structs.replace(facts, objects={}, odd_objects={}, exports={}, heads={})
            for number, facts in found.items()
        }

    def compare(self) -> Differences:
        """The paths that differ in what was read."""
        self.left, self.right = (
            make_tree(self.facts[side], [_title(ref.title, number) for number, ref in enumerate(image.ref.layers)])
            for side, image in enumerate(self.images)
        )
        together = {pair.left: pair.right for pair in self.pairs if pair.left is not None and pair.right is not None}
        return compare_trees(self.left, self.right, together)

    def needs_all(self, found: Differences) -> bool:
        """Whether what was not read can change the answer: something hides lower layers; or, in images that others
        made, a path that one side alone seems to have may be in a layer that both have."""
        if self.left.hides or self.right.hides:
            return True
        ours = all(any(name.startswith(OURS) for name in image.ref.facts.labels) for image in self.images)
        return not ours and any(item.change in ("added", "removed", "renamed") for item in found.found)


def _title(title: str, number: int) -> str:
    return printable(title or str(number))


def _compare(images: _Images, pairs: Sequence[Pair], options: Options, progress: Progress) -> _Found:
    work = _Comparison(images, pairs, options, progress)
    work.read([pair for pair in pairs if pair not in work.unread])
    found = work.compare()
    if work.unread and work.needs_all(found):
        progress.step(f"{plural(len(work.unread), 'equal layer')} can hold what only one side seems to have: reading")
        work.read(work.unread)
        work.unread = []
        found = work.compare()
    progress.step(f"{plural(len(found.found), 'path')} of {found.equal + len(found.found):,} differ")
    causes = dict(_stream_causes(work, found))
    work.facts = ({}, {})  # what is still wanted of them is in the trees
    contents, skipped = _look_into(work, found)
    if work.unread:
        what = plural(len(work.unread), "layer")
        skipped.append(Skipped(what=what, reason="the same tar stream on both sides: not read (--whole reads them)"))
    return _Found(
        groups=make_groups(work.left, work.right, found.found, contents),
        times=found.times,
        causes=causes,
        read=frozenset(pairs) - frozenset(work.unread),
        skipped=tuple(skipped),
    )


def _look_into(work: _Comparison, found: Differences) -> tuple[dict[str, ContentDifference], list[Skipped]]:
    """(why contents differ, by path; what was not looked into)."""
    paths = [item.path for item in found.found if "content" in item.aspects]
    if not paths:
        return {}, []
    if work.options.quick:
        return {}, [Skipped(what=f"contents of {plural(len(paths), 'file')}", reason="not looked into (--quick)")]
    wanted: dict[Wanted, list[str]] = defaultdict(list)
    for path in paths:
        wanted[Wanted(work.left.source(path), work.right.source(path))].append(path)
    contents: dict[str, ContentDifference] = {}
    for pair, one, two in fetch(work.images[0], work.images[1], list(wanted)):
        work.progress.advance("files looked into", len(contents), len(paths))
        compared = compare_content(wanted[pair][0], one, two)
        contents.update(dict.fromkeys(wanted[pair], compared))
    _follow_sources(contents)
    missed = len(paths) - len(contents)
    reason = "their places in the two images are too far apart"
    return contents, [Skipped(what=f"contents of {plural(missed, 'file')}", reason=reason)] if missed else []


def _follow_sources(contents: dict[str, ContentDifference]) -> None:
    """A compiled file whose source differs as well is no difference of its own."""
    for path, found in contents.items():
        match = COMPILED.match(path)
        if found.form == "pyc" and match is not None and f"{match[1] or ''}{match[2]}.py" in contents:
            contents[path] = msgspec.structs.replace(found, causes=("follows-source",))


def _stream_causes(work: _Comparison, found: Differences) -> Iterator[tuple[Pair, tuple[str, ...]]]:
    """Why the streams of changed layers differ."""
    touched = {
        (side, tree.source(path)[0])
        for item in found.found
        for side, tree in enumerate((work.left, work.right))
        for path in {item.path, item.before}
        if path in tree.stacked.entries
    }
    for pair in work.pairs:
        if pair.change == "changed" and pair.left is not None and pair.right is not None:
            if touched & {(0, pair.left), (1, pair.right)}:
                yield pair, ("files",)
            else:
                yield pair, stream_causes(work.facts[0][pair.left], work.facts[1][pair.right])


# --- the record -------------------------------------------------------------------------------------------------------


def _result(images: _Images, pairs: Sequence[Pair], found: _Found) -> ImageDiff:
    left, right = (image.ref for image in images)
    config = compare_configs(left.config, right.config)
    manifest = compare_manifests(left.manifest, right.manifest)
    if left.config != right.config and not config and all(pair.change == "same" for pair in pairs):
        config = (Change(name=FORM, before=_digest(left.config), after=_digest(right.config)),)
    counts: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for group in found.groups:
        counts.update(group.counts)
        causes.update(group.causes)
    same = all(pair.change == "same" for pair in pairs)
    return ImageDiff(
        left=ImageSide(image=printable(images[0].spec), digest=left.facts.digest, config=_digest(left.config)),
        right=ImageSide(image=printable(images[1].spec), digest=right.facts.digest, config=_digest(right.config)),
        equal=same and not (config or manifest or found.groups),
        config=config,
        manifest=manifest,
        layers=tuple(_layers(images, pairs, found)),
        counts=dict(counts),
        times=found.times,
        groups=found.groups,
        causes=dict(causes.most_common()),
        skipped=found.skipped,
    )


def _digest(document: bytes) -> str:
    return f"sha256:{hashlib.sha256(document).hexdigest()}"


def _layers(images: _Images, pairs: Sequence[Pair], found: _Found) -> Iterator[LayerDifference]:
    rows = layer_rows(images[0]), layer_rows(images[1])
    for pair in pairs:
        one = rows[0][pair.left] if pair.left is not None else None
        two = rows[1][pair.right] if pair.right is not None else None
        yield LayerDifference(
            change=pair.change,
            left=one.name if one else "",
            right=two.name if two else "",
            left_diff_id=one.diff_id if one else "",
            right_diff_id=two.diff_id if two else "",
            left_digest=one.digest if one else "",
            right_digest=two.digest if two else "",
            left_bytes=one.pull_bytes if one else None,
            right_bytes=two.pull_bytes if two else None,
            read=pair in found.read,
            causes=found.causes.get(pair, ()),
        )
