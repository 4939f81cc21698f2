"""The first operation that differs between two runs of one computation, and every place where a difference begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orbit.qualify.records import FirstDifference
from orbit.qualify.tape import Entry
from orbit.qualify.values import difference

type Fetch = Callable[[str], bytes]
"""From the sha256 of a tensor's bytes to the bytes."""


def same_structure(left: Sequence[Entry], right: Sequence[Entry]) -> str:
    """Why two tapes are not of one computation; empty when they are. Order may differ, what is there may not."""
    ours, theirs = {entry.key for entry in left}, {entry.key for entry in right}
    for missing, side in ((ours - theirs, "right"), (theirs - ours, "left")):
        if missing:
            phase, name = min(missing)
            return f"{len(missing)} tensors are not traced on the {side}, the first is {phase} {name}"
    return ""


def unequal(left: Sequence[Entry], right: Sequence[Entry]) -> list[int]:
    """Places on the left of tensors whose type, shape or bits are others on the right, in order of execution."""
    theirs = {entry.key: entry for entry in right}
    return [place for place, entry in enumerate(left) if not _equal(entry, theirs[entry.key])]


def origins(left: Sequence[Entry], right: Sequence[Entry]) -> list[int]:
    """Of those, the ones all of whose inputs are equal: there a difference begins and is not handed on."""
    differing = unequal(left, right)
    known = set(differing)
    return [place for place in differing if known.isdisjoint(left[place].inputs)]


def first_difference(
    left: Sequence[Entry], right: Sequence[Entry], left_bytes: Fetch, right_bytes: Fetch
) -> FirstDifference | None:
    """The first tensor in the left one's order that is not the same on the right; None when all are."""
    differing = unequal(left, right)
    if not differing:
        return None
    place, known = differing[0], set(differing)
    entry = left[place]
    other = next(item for item in right if item.key == entry.key)
    comparable = entry.kept and other.kept and (entry.dtype, entry.shape) == (other.dtype, other.shape)
    return FirstDifference(
        order=place,
        of=len(left),
        phase=entry.phase,
        op=entry.op,
        name=entry.name,
        inputs=tuple(label(left[at]) for at in entry.inputs),
        unequal_inputs=tuple(label(left[at]) for at in entry.inputs if at in known),
        difference=difference(entry.dtype, entry.shape, left_bytes(entry.sha256), right_bytes(other.sha256))
        if comparable
        else None,
    )


def label(entry: Entry) -> str:
    """Phase and name."""
    return f"{entry.phase} {entry.name}"


def _equal(left: Entry, right: Entry) -> bool:
    return (left.sha256, left.dtype, left.shape, left.op) == (right.sha256, right.dtype, right.shape, right.op)
