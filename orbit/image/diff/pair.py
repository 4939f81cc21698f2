"""Which layer of one image is which of the other: the same stream, the same name, the same place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from orbit.audit.images.image_source import LayerRef


class Pair(NamedTuple):
    """One layer on both sides, or on one."""

    change: str
    """``same``, ``recompressed``, ``reordered``, ``changed``, ``added``, ``removed``."""
    left: int | None
    right: int | None


def pair_layers(left: Sequence[LayerRef], right: Sequence[LayerRef]) -> tuple[Pair, ...]:
    """Pairs in the order of the right image; what only the left one has where it was."""
    same = SequenceMatcher(None, [ref.diff_id for ref in left], [ref.diff_id for ref in right], autojunk=False)
    found: list[Pair] = []
    gaps: list[tuple[list[int], list[int]]] = []
    for kind, first, last, start, stop in same.get_opcodes():
        if kind == "equal":
            found += [
                Pair(_equal(left[one], right[two]), one, two)
                for one, two in zip(range(first, last), range(start, stop), strict=True)
            ]
        else:
            gaps.append((list(range(first, last)), list(range(start, stop))))
    found += _reordered(left, right, gaps)
    for ones, twos in gaps:
        found += _changed(left, right, ones, twos)
    return tuple(sorted(found, key=_order))


def _equal(one: LayerRef, two: LayerRef) -> str:
    """A tar stream is known by its diff id; its blobs may be compressed in two ways. Archives of docker (which state no
    sizes) do not say how a layer is compressed elsewhere."""
    stated = one.size >= 0 and two.size >= 0
    return "recompressed" if stated and one.digest != two.digest else "same"


def _reordered(
    left: Sequence[LayerRef], right: Sequence[LayerRef], gaps: list[tuple[list[int], list[int]]]
) -> Iterator[Pair]:
    """The same stream at another place; both are taken out of ``gaps``."""
    for ones, _ in gaps:
        for one in list(ones):
            for _, twos in gaps:
                two = next((number for number in twos if right[number].diff_id == left[one].diff_id), None)
                if two is not None:
                    ones.remove(one)
                    twos.remove(two)
                    yield Pair("reordered", one, two)
                    break


def _changed(left: Sequence[LayerRef], right: Sequence[LayerRef], ones: list[int], twos: list[int]) -> Iterator[Pair]:
    """Between two layers that are the same: those of one name, then those that are left, in order."""
    for one in list(ones):
        title = left[one].title
        two = next((number for number in twos if title and right[number].title == title), None)
        if two is not None:
            ones.remove(one)
            twos.remove(two)
            yield Pair("changed", one, two)
    named = [bool(left[one].title) for one in ones] + [bool(right[two].title) for two in twos]
    if not all(named):  # names that differ are two layers; without names the place is all there is
        while ones and twos:
            yield Pair("changed", ones.pop(0), twos.pop(0))
    yield from (Pair("removed", one, None) for one in ones)
    yield from (Pair("added", None, two) for two in twos)


def _order(pair: Pair) -> tuple[float, int]:
    if pair.right is not None:
        return float(pair.right), 0
    assert pair.left is not None
    return pair.left - 0.5, 1
