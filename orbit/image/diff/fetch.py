"""The contents of files that differ, both sides at once, as their layers go by.

Both images are read at the same time. Tar streams are mostly in the same order, so that a file waits for its partner
for a moment only; what waits lies on disk, and is bounded: pairs too far apart are left for another reading.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from orbit.audit.images.opened import Found, OpenImage
from orbit.audit.images.overlay import Source
from orbit.core.files import naming

WAITING_BYTES = 4 << 30
"""On disk, of both sides together."""
MAX_READINGS = 8


class Wanted(NamedTuple):
    """One content on both sides."""

    left: Source
    right: Source


@dataclass(slots=True)
class _Side:
    """One image going by."""

    stream: Generator[Found]
    folder: Path
    pairs: dict[Source, list[Wanted]]
    files: dict[Source, Path] = field(default_factory=dict)
    sizes: dict[Source, int] = field(default_factory=dict)
    ended: bool = False

    @property
    def waiting(self) -> int:
        """Bytes on disk."""
        return sum(self.sizes.values())

    def next(self) -> Source | None:
        """Write the next wanted content to disk."""
        found = next(self.stream, None)
        if found is None:
            self.ended = True
            return None
        source = found.layer, found.number
        path = self.folder / f"{found.layer}-{found.number}"
        with naming(path), open(path, "wb") as file:
            file.writelines(found.content)
        self.files[source], self.sizes[source] = path, found.member.size
        return source

    def drop(self, source: Source) -> None:
        """Delete a content."""
        self.files.pop(source).unlink()
        del self.sizes[source]


def fetch(
    left: OpenImage, right: OpenImage, wanted: Sequence[Wanted], *, waiting_bytes: int = WAITING_BYTES
) -> Iterator[tuple[Wanted, Path, Path]]:
    """Every wanted pair with the files that hold it, in the order in which they come together. The files are gone when
    the next pair is asked for. A pair that does not come is not given."""
    left_over = list(dict.fromkeys(wanted))
    for _ in range(MAX_READINGS):
        if not left_over:
            return
        before = len(left_over)
        left_over = yield from _pass(left, right, left_over, waiting_bytes)
        if len(left_over) == before:
            return


def _pass(
    left: OpenImage, right: OpenImage, wanted: Sequence[Wanted], waiting_bytes: int
) -> Generator[tuple[Wanted, Path, Path], None, list[Wanted]]:
    """One reading of both images; the pairs that were put off."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="orbit-diff-")))
        sides = []
        for place, image in enumerate((left, right)):
            pairs: dict[Source, list[Wanted]] = defaultdict(list)
            layers: dict[int, set[int]] = defaultdict(set)
            for pair in wanted:
                source = pair[place]
                pairs[source].append(pair)
                layers[source[0]].add(source[1])
            own = folder / str(place)
            own.mkdir()
            sides.append(_Side(opened.enter_context(closing(image.members(layers))), own, dict(pairs)))
        return (yield from _meet(sides[0], sides[1], waiting_bytes))


def _meet(one: _Side, two: _Side, waiting_bytes: int) -> Generator[tuple[Wanted, Path, Path], None, list[Wanted]]:
    put_off: dict[Wanted, None] = {}
    while not (one.ended and two.ended):
        side, other = (one, two) if two.ended or (not one.ended and one.waiting <= two.waiting) else (two, one)
        source = side.next()
        if source is None:
            continue
        for pair in list(side.pairs[source]):
            partner = pair.right if side is one else pair.left
            if partner in other.files:
                yield pair, one.files[pair.left], two.files[pair.right]
                _done(one, pair.left, pair)
                _done(two, pair.right, pair)
        if source in side.files and all(pair in put_off for pair in side.pairs[source]):
            side.drop(source)
        if one.waiting + two.waiting > waiting_bytes and len(one.files) + len(two.files) > 1:
            full = one if one.waiting >= two.waiting else two
            for late in list(full.files):
                put_off.update(dict.fromkeys(full.pairs[late]))
                full.drop(late)
    return list(put_off)


def _done(side: _Side, source: Source, pair: Wanted) -> None:
    side.pairs[source].remove(pair)
    if not side.pairs[source]:
        side.drop(source)
