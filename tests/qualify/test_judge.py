"""What one record proves by itself: repeatable, finite, near the plain path; and what it must not be taken for."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from orbit.qualify.records import Qualification
from tests.qualify.made import record
from tests.qualify.toy import CASES, Toy, nudge, push, tiny


def result_of(made: Qualification, path: str, dtype: str = "float32") -> tuple[str, str]:
    case = next(case for case in made.cases if case.key == (path, dtype))
    return case.result, case.reason


def test_equal_repeats_and_near_paths_pass(tmp_path: Path) -> None:
    made = record(tmp_path / "r.json", repeats=3)
    assert (made.verdict, made.unproven, made.counts) == ("passed", (), {"proven": 4})
    assert [len(case.repeats) for case in made.cases] == [2, 2, 2, 2]
    assert all(repeat.equal for case in made.cases for repeat in case.repeats)
    sdpa = made.cases[2]
    assert sdpa.agreement is not None
    assert sdpa.agreement.deltas.decode.max == 0.0


def test_a_path_that_is_not_repeatable_proves_nothing_and_is_not_a_failure(tmp_path: Path) -> None:
    made = record(tmp_path / "r.json", Toy(noise={("forward", "scaled"): nudge}, only="sdpa"), cases=CASES[::2])
    result, reason = result_of(made, "sdpa")
    assert result == "not-repeatable"
    assert "first in forward scaled (linear)" in reason
    assert made.verdict == "unproven"
    assert any("sdpa float32: not-repeatable" in line for line in made.unproven)
    noise = made.cases[1].noise
    assert noise is not None
    assert noise.first.difference is not None
    assert (noise.first.name, noise.first.difference.max_ulp) == ("scaled", 1)
    assert noise.deltas.forward is not None
    assert 0 < noise.deltas.forward.max < 1e-5
    assert made.counts == {"proven": 1, "not-repeatable": 1}


def test_one_run_proves_no_repeat(tmp_path: Path) -> None:
    made = record(tmp_path / "r.json", repeats=1)
    assert made.verdict == "unproven"
    assert result_of(made, "torch") == ("not-repeatable", "ran once: nothing is known about its repeats")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_number_that_is_none_fails(tmp_path: Path, bad: float) -> None:
    toy = Toy(twist={("decode", "shifted"): lambda values: values}, only="sdpa")
    toy.twist = {("forward", "scaled"): lambda values: [bad, *values[1:]]}
    made = record(tmp_path / "r.json", toy)
    result, reason = result_of(made, "sdpa")
    assert result == "failed"
    assert "forward scaled (linear) has 1 values that are not finite" in reason
    assert made.verdict == "failed"


def test_a_kernel_that_computes_something_else_fails(tmp_path: Path) -> None:
    made = record(tmp_path / "r.json", Toy(twist={("forward", "scaled"): push}, only="sdpa"))
    result, reason = result_of(made, "sdpa")
    assert result == "failed"
    assert reason.startswith("not what torch computes: log-probs of given tokens")
    assert made.verdict == "failed"


def test_a_kernel_within_tolerance_is_proven_and_its_distance_is_told(tmp_path: Path) -> None:
    made = record(tmp_path / "r.json", Toy(twist={("forward", "scaled"): nudge}, only="sdpa"))
    assert result_of(made, "sdpa") == ("proven", "")
    agreement = made.cases[2].agreement
    assert agreement is not None
    assert agreement.deltas.forward is not None
    assert 0 < agreement.deltas.forward.max < 1e-5


def test_what_is_required_and_was_not_run_is_unproven(tmp_path: Path) -> None:
    made = record(tmp_path / "r.json", cases=CASES[:2])
    assert (made.verdict, made.unproven) == ("unproven", ("sdpa: not run",))
    skipped = record(tmp_path / "s.json", Toy(skipped={"sdpa": "no such backend"}))
    assert skipped.verdict == "unproven"
    assert skipped.unproven == ("sdpa float32: skipped: no such backend", "sdpa bfloat16: skipped: no such backend")
    assert skipped.counts == {"proven": 2, "skipped": 2}


def test_nothing_required_still_needs_the_plain_path(tmp_path: Path) -> None:
    free = msgspec.structs.replace(tiny(), required={})
    made = record(tmp_path / "r.json", definition=free, cases=CASES[2:])
    assert (made.verdict, made.unproven) == ("unproven", ("torch float32: not run", "torch bfloat16: not run"))
