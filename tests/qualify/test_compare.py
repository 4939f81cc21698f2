"""Comparisons: equal bits on one architecture, tolerance across two, and what proves nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orbit.errors import InputError
from orbit.qualify.compare import Comparison, compare, load_side
from orbit.qualify.records import Settings
from tests.qualify.made import compared, record
from tests.qualify.toy import CASES, Toy, nudge, push, tiny

OTHER = "toy 2"


def results(found: Comparison) -> dict[str, str]:
    return {f"{case.path} {case.dtype}": case.result for case in found.cases}


def test_two_records_of_one_build_are_equal(tmp_path: Path) -> None:
    found = compared(tmp_path)
    assert (found.verdict, found.mode, found.changed) == ("passed", "bits", ())
    assert set(results(found).values()) == {"equal"}
    assert all(case.first is None and case.deltas is None for case in found.cases)


def test_one_architecture_allows_no_bit_and_names_the_operation(tmp_path: Path) -> None:
    changed = Toy(twist={("forward", "scaled"): nudge}, only="sdpa", versions={"torch": "2"})
    found = compared(tmp_path, right=changed)
    assert found.verdict == "failed"
    assert results(found)["torch float32"] == "equal"
    case = next(case for case in found.cases if case.path == "sdpa" and case.dtype == "float32")
    assert case.result == "different"
    assert case.first is not None
    assert (case.first.phase, case.first.name, case.first.op) == ("forward", "scaled", "linear")
    assert case.first.unequal_inputs == ()
    assert case.origins == ("forward scaled",)
    assert case.exceeded == ()
    assert [(item.name, item.left, item.right) for item in found.changed] == [("version torch", "1", "2")]


def test_two_architectures_are_held_to_the_tolerance(tmp_path: Path) -> None:
    near = compared(tmp_path, right=Toy(twist={("forward", "scaled"): nudge}, architecture=OTHER))
    assert (near.verdict, near.mode) == ("passed", "tolerance")
    assert results(near)["torch float32"] == "within"
    assert results(near)["torch bfloat16"] == "equal"
    far = compared(tmp_path, right=Toy(twist={("forward", "scaled"): push}, architecture=OTHER))
    assert far.verdict == "failed"
    case = far.cases[0]
    assert "log-probs of given tokens: max" in " ".join(case.exceeded)
    assert case.reason == case.exceeded[0]


def test_another_token_is_a_difference_across_architectures(tmp_path: Path) -> None:
    def other_token(values: list[float]) -> list[float]:
        return [values[0] + 1.0, *values[1:]]

    found = compared(tmp_path, right=Toy(twist={("decode", "tokens"): other_token}, architecture=OTHER))
    assert found.verdict == "failed"
    case = found.cases[0]
    assert case.deltas is not None
    assert (case.deltas.identical, case.deltas.prompts) == (2, 3)
    assert "prompt 0: token 0 is" in case.reason


def test_a_path_that_is_not_repeatable_is_counted_apart(tmp_path: Path) -> None:
    noisy = Toy(noise={("forward", "scaled"): push}, only="sdpa")
    found = compared(tmp_path, right=noisy)
    assert found.verdict == "passed"
    assert found.counts == {"equal": 2, "unproven": 2}
    only = compared(tmp_path, Toy(noise={("forward", "scaled"): push}), Toy(noise={("forward", "scaled"): push}))
    assert only.verdict == "unproven"


def test_what_one_side_did_not_run_is_skipped_with_the_reason(tmp_path: Path) -> None:
    found = compared(tmp_path, right=Toy(skipped={"sdpa": "none here"}))
    case = next(case for case in found.cases if case.path == "sdpa")
    assert (case.result, case.reason) == ("skipped", "right: none here")
    record(tmp_path / "b.json", cases=CASES[:2])
    sides = load_side(tmp_path / "a.json"), load_side(tmp_path / "b.json")
    again = compare(*sides, tiny())
    assert again.cases[2].reason == "right: not run"
    assert again.counts == {"equal": 2, "skipped": 2}


def test_a_failed_case_is_a_difference(tmp_path: Path) -> None:
    found = compared(tmp_path, right=Toy(dies_at=("torch", "float32")))
    assert found.verdict == "failed"
    assert found.cases[0].reason == "right failed: its process ended: signal 11"
    nan = Toy(twist={("forward", "scaled"): lambda values: [float("nan"), *values[1:]]}, architecture=OTHER)
    found = compared(tmp_path, right=nan)
    assert found.cases[0].result == "different"
    assert "not finite" in found.cases[0].reason
    assert found.cases[0].first is not None
    assert found.cases[0].first.difference is not None
    assert found.cases[0].first.difference.nan == 1


def test_settings_that_differ_are_told_as_causes(tmp_path: Path) -> None:
    record(tmp_path / "a.json")
    record(tmp_path / "b.json", settings=Settings(tf32=True))
    found = compare(load_side(tmp_path / "a.json"), load_side(tmp_path / "b.json"), tiny())
    assert [(item.name, item.left, item.right) for item in found.changed] == [("setting tf32", "False", "True")]


def test_records_of_two_batches_or_of_an_unknown_one_are_refused(tmp_path: Path) -> None:
    other = msgspec.structs.replace(tiny(), seed=5)
    record(tmp_path / "a.json")
    record(tmp_path / "b.json", definition=other)
    sides = load_side(tmp_path / "a.json"), load_side(tmp_path / "b.json")
    with pytest.raises(InputError, match="records of two batches: identity"):
        compare(*sides, tiny())
    with pytest.raises(InputError, match="not the definition"):
        compare(sides[1], sides[1], tiny())


def test_a_cut_tensor_file_is_refused(tmp_path: Path) -> None:
    record(tmp_path / "a.json")
    path = tmp_path / "a.tensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="its record says"):
        load_side(tmp_path / "a.json")
