"""Distances of two runs by hand: percentiles, tokens and ties, tolerances that hold and that do not."""

from __future__ import annotations

import math

import msgspec
import pytest

from orbit.errors import InputError
from orbit.qualify.deltas import Outcome, deltas, exceeded, outcome, spread
from orbit.qualify.model import Tolerance
from tests.qualify.test_trace import BYTES, PLAIN

BASE = Outcome(
    tokens=((1, 2, 3), (4, 5, 6)),
    logprobs=((-1.0, -2.0, -3.0), (-1.0, -2.0, -3.0)),
    margins=((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    scores=(-1.0, -2.0, -3.0, -4.0),
    loss=2.0,
    grad_norm=4.0,
)
STRICT = Tolerance(
    between="architectures",
    dtype="float32",
    p50=0.1,
    mean=0.1,
    p95=0.2,
    max=0.3,
    grad_norm=0.01,
    tie=0.0,
    reason="test",
)


def changed(**values: object) -> Outcome:
    return msgspec.structs.replace(BASE, **values)


def test_percentiles_are_nearest_rank() -> None:
    found = spread([float(value) for value in range(1, 21)])
    assert (found.count, found.p50, found.mean, found.p95, found.max) == (20, 10.0, 10.5, 19.0, 20.0)
    assert spread([]).count == 0
    assert spread([7.0]) == msgspec.structs.replace(spread([7.0]), p50=7.0, p95=7.0, max=7.0)


def test_equal_runs_are_nothing_apart() -> None:
    found = deltas(BASE, BASE)
    assert (found.identical, found.diverged, found.decode.max, found.grad_norm, found.loss) == (2, (), 0.0, 0.0, 0.0)
    assert found.forward is not None
    assert found.forward.max == 0.0
    assert exceeded(found, STRICT) == ()


def test_log_probs_after_another_token_are_not_compared() -> None:
    other = changed(tokens=((1, 9, 3), (4, 5, 6)), logprobs=((-1.0, -7.0, -9.0), (-1.0, -2.0, -3.25)))
    found = deltas(BASE, other)
    assert found.identical == 1
    assert (found.decode.count, found.decode.max) == (4, 0.25)
    (item,) = found.diverged
    assert (item.prompt, item.position, item.left, item.right, item.margin) == (0, 1, 2, 9, 0.5)


@pytest.mark.parametrize(("tie", "allowed"), [(0.0, False), (0.4, False), (0.5, True)])
def test_another_token_is_allowed_at_a_stated_tie_alone(tie: float, allowed: bool) -> None:
    found = deltas(BASE, changed(tokens=((1, 9, 3), (4, 5, 6))))
    said = exceeded(found, msgspec.structs.replace(STRICT, tie=tie))
    assert (not said) == allowed
    if said:
        assert "prompt 0: token 1 is 2 and 9" in said[0]


def test_each_bound_is_held_on_its_own() -> None:
    far = deltas(BASE, changed(scores=(-1.5, -2.0, -3.0, -4.0), grad_norm=4.1))
    said = " / ".join(exceeded(far, STRICT))
    assert "given tokens: max 0.5, allowed 0.3" in said
    assert "given tokens: p50" not in said
    assert "gradient norm: 0.025 relative" in said


def test_nan_is_never_within() -> None:
    found = deltas(BASE, changed(grad_norm=math.nan))
    assert exceeded(found, STRICT)


def test_what_a_path_does_not_do_is_none() -> None:
    found = deltas(changed(scores=None, grad_norm=None, loss=None), BASE)
    assert (found.forward, found.grad_norm, found.loss) == (None, None, None)


def test_an_end_is_read_from_a_tape() -> None:
    found = outcome(PLAIN, BYTES.__getitem__)
    assert len(found.tokens) == 3
    assert found.logprobs[0][0] == pytest.approx(-7.0)
    assert found.grad_norm == pytest.approx(math.sqrt(12 * 9.0))
    with pytest.raises(InputError, match="decode tokens"):
        outcome(PLAIN[:2], BYTES.__getitem__)
    dropped = [msgspec.structs.replace(entry, kept=False) for entry in PLAIN]
    with pytest.raises(InputError, match="were not kept"):
        outcome(dropped, BYTES.__getitem__)
