"""How far two runs of one batch are apart where bits may differ: tokens, log-probs, loss, gradient norm."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orbit.core.records import Record
from orbit.errors import InputError
from orbit.qualify.model import Tolerance
from orbit.qualify.records import Deltas, Divergence, Spread
from orbit.qualify.tape import GRAD_NORM, LOGPROBS, LOSS, MARGINS, SCORES, TOKENS, Entry
from orbit.qualify.trace import Fetch
from orbit.qualify.values import numbers

SPREADS = ("p50", "mean", "p95", "max")


class Outcome(Record, frozen=True, kw_only=True):
    """What a run says in the end."""

    tokens: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float, ...], ...]
    margins: tuple[tuple[float, ...], ...]
    scores: tuple[float, ...] | None = None
    loss: float | None = None
    grad_norm: float | None = None


def outcome(entries: Sequence[Entry], fetch: Fetch) -> Outcome:
    """Read the end of a run from its tape. Raises :class:`InputError` when it has none."""
    found = {entry.key: entry for entry in entries}

    def read(key: tuple[str, str]) -> tuple[float, ...] | None:
        entry = found.get(key)
        if entry is None:
            return None
        if not entry.kept:
            raise InputError(f"{' '.join(key)}: its values were not kept", fix="raise keep_bytes of the definition")
        return tuple(numbers(entry.dtype, fetch(entry.sha256)))

    def rows(key: tuple[str, str]) -> tuple[tuple[float, ...], ...]:
        flat = read(key)
        if flat is None:
            raise InputError(f"nothing was generated: {' '.join(key)} is not there", fix="make the record anew")
        width = found[key].shape[-1]
        return tuple(flat[at : at + width] for at in range(0, len(flat), width))

    loss, norm = read(LOSS), read(GRAD_NORM)
    return Outcome(
        tokens=tuple(tuple(int(token) for token in row) for row in rows(TOKENS)),
        logprobs=rows(LOGPROBS),
        margins=rows(MARGINS),
        scores=read(SCORES),
        loss=loss[0] if loss else None,
        grad_norm=norm[0] if norm else None,
    )


def deltas(left: Outcome, right: Outcome) -> Deltas:
    """Compare two ends. What one of them lacks is None."""
    diverged, apart = [], []
    for prompt, (ours, theirs) in enumerate(zip(left.tokens, right.tokens, strict=True)):
        until = next((at for at, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b), len(ours))
        apart += [
            abs(a - b) for a, b in zip(left.logprobs[prompt][:until], right.logprobs[prompt][:until], strict=True)
        ]
        if until < len(ours):
            margin = max(left.margins[prompt][until], right.margins[prompt][until])
            diverged.append(
                Divergence(prompt=prompt, position=until, left=ours[until], right=theirs[until], margin=margin)
            )
    scores = None
    if left.scores is not None and right.scores is not None:
        scores = spread([abs(a - b) for a, b in zip(left.scores, right.scores, strict=True)])
    return Deltas(
        prompts=len(left.tokens),
        identical=len(left.tokens) - len(diverged),
        diverged=tuple(diverged),
        decode=spread(apart),
        forward=scores,
        loss=None if left.loss is None or right.loss is None else abs(left.loss - right.loss),
        grad_norm=_relative(left.grad_norm, right.grad_norm),
    )


def spread(values: Sequence[float]) -> Spread:
    """Percentiles (nearest rank), mean and maximum; all zero without values."""
    if not values:
        return Spread(count=0, p50=0.0, mean=0.0, p95=0.0, max=0.0)
    ordered = sorted(values)
    return Spread(
        count=len(ordered),
        p50=_rank(ordered, 0.5),
        mean=math.fsum(ordered) / len(ordered),
        p95=_rank(ordered, 0.95),
        max=ordered[-1],
    )


def exceeded(found: Deltas, tolerance: Tolerance) -> tuple[str, ...]:
    """In what ``found`` is more than ``tolerance`` allows, one sentence each; NaN is never allowed."""
    said = [
        f"prompt {item.prompt}: token {item.position} is {item.left} and {item.right}, "
        f"and the two best are {item.margin:.3g} apart (a tie is {tolerance.tie:g})"
        for item in found.diverged
        if not item.margin <= tolerance.tie
    ]
    for name, measured in (("generated", found.decode), ("given", found.forward)):
        for at in SPREADS if measured else ():
            value, limit = getattr(measured, at), getattr(tolerance, at)
            if not value <= limit:
                said.append(f"log-probs of {name} tokens: {at} {value:.3g}, allowed {limit:g}")
    if found.grad_norm is not None and not found.grad_norm <= tolerance.grad_norm:
        said.append(f"gradient norm: {found.grad_norm:.3g} relative, allowed {tolerance.grad_norm:g}")
    return tuple(said)


def _rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _relative(left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return None
    return abs(left - right) / abs(left) if left else abs(right)
