"""Estimates: exact, from siblings, from the recipe; merged over runs; whole or absent on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.kernels.jobs.estimates import (
    HEADROOM,
    KEPT_PEAKS,
    Estimator,
    Known,
    estimates_path,
    fallback,
    load_known,
    merge,
    remember,
    remembering,
)
from orbit.kernels.jobs.steps import Key
from tests.core.processes import until
from tests.kernels.jobs.writers import GIB, MIB, cached, estimator, line, measured

CICC = Key("cicc", "x.cu", "sm_90a")


def test_a_measured_step_is_its_own_estimate() -> None:
    known = estimator(steps=[measured("x.cu", "cicc", "sm_90a", 12.0, [2 * GIB, 3 * GIB, GIB])])
    expected = known.expect(CICC)
    assert (expected.seconds, expected.origin) == (12.0, "measured")
    assert expected.peak_bytes == int(3 * GIB * HEADROOM)


def test_an_unknown_source_is_like_its_siblings() -> None:
    steps = [measured(f"{n}.cu", "cicc", "sm_90a", float(n), [n * GIB]) for n in range(1, 12)]
    expected = estimator(steps=[*steps, measured("y", "host", "", 1000.0, [99 * GIB])]).expect(CICC)
    assert (expected.seconds, expected.origin) == (6.0, "siblings")
    assert expected.peak_bytes == int(10 * GIB * HEADROOM)  # the 90th percentile of 1..11


def test_without_measures_the_recipe_is_believed() -> None:
    default = fallback(memory_gib=10, core_hours=30, units=72, archs=2)
    assert (default.memory_bytes, default.unit_cpu_s, default.archs) == (10 * GIB, 1500.0, 2)
    known = Estimator(Known(recipe="flash-attn"), default)
    assert known.expect(CICC).peak_bytes == 10 * GIB
    assert known.expect(CICC).origin == "recipe"
    # a unit is one cudafe++, one cicc and one ptxas per architecture, one host compile
    per_arch = known.expect(CICC).cpu_s + known.expect(Key("ptxas", "x.cu", "sm_90a")).cpu_s
    rest = known.expect(Key("host", "x.cu", "")).cpu_s + known.expect(Key("cudafe", "x.cu", "")).cpu_s
    assert 2 * per_arch + rest == pytest.approx(1500.0)


def test_no_units_are_no_division_by_zero() -> None:
    assert fallback(3, 0.2, 0, 0).unit_cpu_s == pytest.approx(720.0)


def test_the_way_to_the_end_of_the_unit_counts() -> None:
    known = estimator(
        steps=[measured("x.cu", "cicc", "sm_90a", 5.0), measured("x.cu", "ptxas", "sm_90a", 20.0),
               measured("x.cu", "host", "", 3.0)]
    )  # fmt: skip
    assert known.to_end_s(CICC) == 28.0
    assert known.to_end_s(Key("ptxas", "x.cu", "sm_90a")) == 23.0
    assert known.to_end_s(Key("host", "x.cu", "")) == 3.0


def test_units_are_sources_without_links_and_probes() -> None:
    known = estimator(steps=[measured("x.cu", "cicc", "sm_90a"), measured("x.cu", "host"), measured("y.cc", "host"),
                             measured("a.so", "link"), measured("probe", "host")])  # fmt: skip
    assert known.units() == {"x.cu": (CICC, Key("host", "x.cu", "")), "y.cc": (Key("host", "y.cc", ""),)}


def test_a_run_brings_the_latest_time_and_another_peak() -> None:
    known = Known(recipe="a")
    for run in range(8):
        known = merge(known, [line("x.cu", "cicc", "sm_90a", seconds=10.0 + run, peak=(run + 1) * MIB)])
    (step,) = known.steps
    assert (step.seconds, step.cpu_s) == (17.0, 17.0)
    assert step.peaks == tuple(n * MIB for n in range(8 - KEPT_PEAKS + 1, 9))
    assert not step.partial


def test_what_did_not_run_or_failed_teaches_nothing() -> None:
    lines = [cached("x.cu"), line("y.cu", status=1), line("z.cu", peak=0)]
    assert merge(Known(recipe="a"), lines) == Known(recipe="a")


@pytest.mark.parametrize("status", [-9, 137])
def test_a_killed_step_raises_the_next_reservation_and_lowers_none(status: int) -> None:
    killed = line("x.cu", "cicc", "sm_90a", seconds=5.0, peak=8 * GIB, status=status)
    small = line("y.cu", "cicc", "sm_90a", seconds=5.0, peak=MIB, status=status)
    known = merge(Known(recipe="a"), [killed, small])
    after = Estimator(known, fallback(3, 1, 1, 1))
    assert after.expect(CICC).peak_bytes == int(8 * GIB * HEADROOM)
    assert after.expect(Key("cicc", "y.cu", "sm_90a")).peak_bytes == 3 * GIB
    assert after.expect(Key("cicc", "z.cu", "sm_90a")).origin == "recipe"
    # once it ended it is a measure like any other
    ended = merge(known, [line("x.cu", "cicc", "sm_90a", seconds=9.0, peak=9 * GIB)])
    assert not ended.steps[-1].partial
    assert ended.steps[-1].peaks == (8 * GIB, 9 * GIB)
    again = merge(ended, [line("x.cu", "cicc", "sm_90a", seconds=1.0, peak=GIB, status=status)])
    assert (again.steps[-1].seconds, again.steps[-1].partial) == (9.0, False)


def test_runs_are_remembered(tmp_path: Path) -> None:
    assert load_known(tmp_path, "a") == Known(recipe="a")
    remember(tmp_path, "a", [line("x.cu", seconds=3.0)])
    remember(tmp_path, "a", [line("y.cu", seconds=4.0)])
    known = load_known(tmp_path, "a")
    assert [(step.source, step.seconds) for step in known.steps] == [("x.cu", 3.0), ("y.cu", 4.0)]
    assert [path.name for path in (tmp_path / "estimates").iterdir()] == ["a.json"]


def test_a_build_is_remembered_while_it_runs_and_each_step_once(tmp_path: Path) -> None:
    ended = [line("x.cu", peak=GIB)]
    with remembering(tmp_path, "a", lambda: ended, every_s=0.02):
        assert until(lambda: len(load_known(tmp_path, "a").steps) == 1)
        ended.append(line("y.cu"))
        assert until(lambda: len(load_known(tmp_path, "a").steps) == 2)
        ended.append(line("z.cu"))
    known = load_known(tmp_path, "a")
    assert [(step.source, len(step.peaks)) for step in known.steps] == [("x.cu", 1), ("y.cu", 1), ("z.cu", 1)]


def test_an_interrupted_build_is_remembered(tmp_path: Path) -> None:
    def work() -> None:
        with remembering(tmp_path, "a", lambda: [line("x.cu")]):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(load_known(tmp_path, "a").steps) == 1


def test_compiler_trials_are_nobodys_siblings() -> None:
    assert estimator(steps=[measured("probe", "cicc", "sm_90a")]).expect(CICC).origin == "recipe"


def test_nothing_new_writes_nothing(tmp_path: Path) -> None:
    remember(tmp_path, "a", [cached("x.cu")])
    assert not estimates_path(tmp_path, "a").exists()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"schema": 2, "recipe": "a", "steps": []}', '{"schema": 1, "recipe": "b", "steps": []}', "\0" * 9,
     '{"recipe": "a", "steps": [{"step": "host", "source": "x", "arch": "", "seconds": 1, "cpu_s": 1, "peaks": []}]}'],
)  # fmt: skip
def test_a_damaged_file_counts_as_absent_and_is_replaced(tmp_path: Path, text: str) -> None:
    path = estimates_path(tmp_path, "a")
    path.parent.mkdir()
    path.write_text(text)
    assert load_known(tmp_path, "a") == Known(recipe="a")
    remember(tmp_path, "a", [line("x.cu")])
    assert len(load_known(tmp_path, "a").steps) == 1


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 2**40), st.sampled_from([0, 1, -9])), max_size=20))
def test_merging_run_by_run_is_merging_at_once(runs: list[tuple[str, int, int]]) -> None:
    lines = [line(source, peak=peak, status=status) for source, peak, status in runs]
    whole = merge(Known(recipe="a"), lines)
    piecewise = Known(recipe="a")
    for one in lines:
        piecewise = merge(piecewise, [one])
    assert whole == piecewise
    for step in whole.steps:
        assert max(step.peaks) <= Estimator(whole, fallback(1, 1, 1, 1)).expect(step.key).peak_bytes
