"""A planted difference is traced to the operation it was planted in, whatever comes after it."""

from __future__ import annotations

import msgspec
import pytest

from orbit.qualify.tape import BACKWARD, DECODE, FORWARD, STEP, Entry, Tape
from orbit.qualify.trace import first_difference, label, origins, same_structure, unequal
from tests.qualify.toy import Toy, Twist, nudge


def run(twist: dict[tuple[str, str], Twist]) -> tuple[tuple[Entry, ...], dict[str, bytes]]:
    stored: dict[str, bytes] = {}
    tape = Tape(stored.__setitem__, keep_bytes=1 << 20)
    Toy(twist=twist)._compute(tape, "torch", "float32")
    return tuple(tape.entries), stored


PLAIN, BYTES = run({})
PLANTED = [entry.key for entry in PLAIN if entry.dtype == "float32"]


@pytest.mark.parametrize("key", PLANTED, ids=" ".join)
def test_each_operation_is_found_when_it_alone_is_changed(key: tuple[str, str]) -> None:
    changed, stored = run({key: nudge})
    found = first_difference(PLAIN, changed, BYTES.__getitem__, stored.__getitem__)
    assert found is not None
    assert (found.phase, found.name) == key
    assert found.unequal_inputs == ()
    assert found.difference is not None
    assert (found.difference.max_ulp, found.difference.differing) == (1, 1)
    assert [label(PLAIN[place]) for place in origins(PLAIN, changed)] == [" ".join(key)]


def test_the_first_is_by_execution_and_not_by_name() -> None:
    changed, stored = run({(STEP, "weight"): nudge, (FORWARD, "scaled"): nudge, (BACKWARD, "scaled, input 0"): nudge})
    found = first_difference(PLAIN, changed, BYTES.__getitem__, stored.__getitem__)
    assert found is not None
    assert (found.phase, found.name, found.op) == (FORWARD, "scaled", "linear")
    assert found.inputs == ("input weight",)


def test_two_causes_that_do_not_depend_on_each_other_are_both_told() -> None:
    changed, _stored = run({(DECODE, "scaled"): nudge, (FORWARD, "scaled"): nudge})
    assert [label(PLAIN[place]) for place in origins(PLAIN, changed)] == ["decode scaled", "forward scaled"]


def test_equal_runs_have_no_first_difference() -> None:
    again, stored = run({})
    assert first_difference(PLAIN, again, BYTES.__getitem__, stored.__getitem__) is None
    assert unequal(PLAIN, again) == []


def test_another_order_of_execution_is_no_difference() -> None:
    order = [*PLAIN[:-2], PLAIN[-1], PLAIN[-2]]
    assert unequal(PLAIN, order) == []
    assert same_structure(PLAIN, order) == ""


def test_what_is_traced_on_one_side_alone_is_said() -> None:
    assert "1 tensors are not traced on the right" in same_structure(PLAIN, PLAIN[:-1])
    assert "not traced on the left" in same_structure(PLAIN[:-1], PLAIN)


def test_another_shape_or_operation_is_a_difference_without_a_distance() -> None:
    last = PLAIN[-1]
    other = (*PLAIN[:-1], msgspec.structs.replace(last, shape=(1, *last.shape)))
    found = first_difference(PLAIN, other, BYTES.__getitem__, BYTES.__getitem__)
    assert found is not None
    assert found.difference is None
    renamed = (*PLAIN[:-1], msgspec.structs.replace(last, op="sgd"))
    assert unequal(PLAIN, renamed) == [len(PLAIN) - 1]
