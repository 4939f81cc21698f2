"""Records and comparisons as people read them."""

from __future__ import annotations

from pathlib import Path

from orbit.qualify.text import render_comparison, render_record
from tests.qualify.made import compared, record
from tests.qualify.toy import Toy, nudge, push


def test_a_record_says_what_ran_and_what_is_needed_for_more(tmp_path: Path) -> None:
    text = render_record(record(tmp_path / "r.json", Toy(skipped={"sdpa": "no backend"})))
    assert "qualification tiny on toy (toy 1)" in text
    assert "image not named" in text
    assert "UNPROVEN: 2 proven, 2 skipped" in text
    assert "needed for more: sdpa float32: skipped: no backend" in text
    assert "proven          torch float32" in text


def test_a_record_says_how_far_a_path_is_from_the_plain_one(tmp_path: Path) -> None:
    text = render_record(record(tmp_path / "r.json", Toy(twist={("forward", "scaled"): nudge}, only="sdpa")))
    assert "from torch: tokens 3/3" in text
    assert "PASSED: 4 proven" in text


def test_a_difference_is_said_with_its_operation_its_distance_and_its_place(tmp_path: Path) -> None:
    text = render_comparison(compared(tmp_path, right=Toy(twist={("decode", "scaled"): nudge})))
    assert "one architecture: equal bits" in text
    assert "first: linear at decode scaled (2 of 12), from equal inputs; 1 of 12 values" in text
    assert "at most 1 ulp at [2, 3]: 3.75 and 3.75000024" in text
    assert "within the tolerance between architectures" in text
    assert "FAILED: 2 different, 2 equal" in text


def test_what_differs_in_the_surroundings_is_said(tmp_path: Path) -> None:
    right = Toy(twist={("forward", "scaled"): push}, architecture="toy 2", versions={"torch": "2", "cudnn": "9"})
    text = render_comparison(compared(tmp_path, right=right))
    assert "two architectures: tokens and tolerance" in text
    assert "version torch: 1 -> 2" in text
    assert "version cudnn: - -> 9" in text
    assert "device architecture: toy 1 -> toy 2" in text
