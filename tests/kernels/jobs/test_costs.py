"""Costs: sums over real lines, what was held at once, the table, and files that are whole or absent."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.kernels.jobs.costs import (
    cost_table,
    load_costs,
    most_at_once,
    package_cost,
    save_cost,
    slowest_units,
)
from tests.kernels.jobs.writers import GIB, MIB, cached, line

LINES = [
    line("x.cu", "cicc", "sm_90a", began_s=0, seconds=10, cpu_s=9, peak=2 * GIB, waited_s=1),
    line("x.cu", "cicc", "sm_100a", began_s=0, seconds=12, cpu_s=11, peak=3 * GIB),
    line("x.cu", "ptxas", "sm_90a", began_s=10, seconds=10, cpu_s=10, peak=GIB),
    line("x.cu", "host", "", began_s=20, seconds=5, cpu_s=5, peak=GIB, waited_s=3),
    line("y.cu", "host", "", began_s=0, seconds=2, cpu_s=1, peak=GIB, status=1),
    cached("z.cu"),
]


def test_a_build_is_summed_up() -> None:
    cost = package_cost("a", LINES, wall_s=30, cores=2)
    assert (cost.cpu_s, cost.waited_s, cost.steps, cost.cached, cost.failed) == (36.0, 4.0, 5, 1, 1)
    assert cost.peak_bytes == 3 * GIB
    assert cost.peak_sum_bytes == 6 * GIB  # both cicc and y.cu
    assert cost.reserved_sum_bytes == 6 * GIB
    assert cost.efficiency == pytest.approx(36 / 60)


def test_steps_that_follow_each_other_are_not_at_once() -> None:
    assert most_at_once([(0, 10, 5), (10, 20, 7)]) == 7
    assert most_at_once([(0, 10, 5), (9, 20, 7)]) == 12
    assert most_at_once([]) == 0


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20), st.integers(0, 100)), max_size=15))
def test_at_once_is_what_a_look_at_every_moment_finds(spans: list[tuple[int, int, int]]) -> None:
    found = most_at_once([(begin, begin + length, value) for begin, length, value in spans])
    looks = [sum(v for b, n, v in spans if b <= moment < b + n) for moment in range(41)]
    assert found == max(looks)


def test_the_slowest_units_come_first() -> None:
    slow = slowest_units([*LINES, line("w.cu", seconds=1), line("lib.so", "link", seconds=99)], most=2)
    assert [(unit.source, unit.cpu_s, unit.wall_s, unit.peak_bytes) for unit in slow] == [
        ("x.cu", 35.0, 25.0, 3 * GIB), ("w.cu", 1.0, 1.0, GIB),
    ]  # fmt: skip


def test_the_table_people_read() -> None:
    table = cost_table(
        [package_cost("a", LINES, wall_s=30, cores=2), package_cost("b", [cached("z")], wall_s=2, cores=2)]
    )
    assert table.splitlines() == [
        "package  wall s  CPU s  cores used  largest MiB  at once MiB  reserved MiB         steps  cached",
        "-" * 96,
        "a          30.0   36.0   60 % of 2         3072         6144          6144  5 (1 failed)       1",
        "b           2.0      -           -            -            -             -             0       1",
        "",
        "slowest units",
        "  a: x.cu: 35.0 CPU s in 25.0 s, 3072 MiB",
        "  a: y.cu: 1.0 CPU s in 2.0 s, 1024 MiB",
    ]


def test_nothing_measured_shows_no_number() -> None:
    cost = package_cost("a", [], wall_s=0, cores=2)
    assert cost.efficiency == 0.0
    assert "0 %" not in cost_table([cost])


def test_costs_are_kept_by_recipe(tmp_path: Path) -> None:
    assert load_costs(tmp_path) == ()
    costs = [package_cost(name, LINES, wall_s=30, cores=2) for name in ("b", "a")]
    for cost in costs:
        save_cost(tmp_path, cost)
    save_cost(tmp_path, package_cost("b", LINES, wall_s=40, cores=2))
    save_cost(tmp_path, package_cost("a", [cached("x.cu")], wall_s=1, cores=2))  # all reused: the old numbers stay
    assert [(cost.recipe, cost.wall_s) for cost in load_costs(tmp_path)] == [("a", 30), ("b", 40)]
    assert json.loads(msgspec.json.encode(load_costs(tmp_path)[0]))["peak_bytes"] == 3072 * MIB


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 9}'])
def test_damage_is_absence(tmp_path: Path, text: str) -> None:
    save_cost(tmp_path, package_cost("a", LINES, wall_s=30, cores=2))
    (tmp_path / "costs" / "b.json").write_text(text)
    (tmp_path / "costs" / "c.json").write_bytes((tmp_path / "costs" / "a.json").read_bytes())
    assert [cost.recipe for cost in load_costs(tmp_path)] == ["a"]
