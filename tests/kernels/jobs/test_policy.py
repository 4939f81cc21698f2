"""Admission: the rules one by one, then as properties of any state, then over whole simulated runs."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.kernels.jobs.policy import (
    GIB,
    Decision,
    Limits,
    Running,
    State,
    Waiting,
    decide,
    free_bytes,
    inflight,
    machine_limits,
    packages_at_once,
)
from tests.bench import bench_jobs


def limits(cores: int = 4, budget: float = 20, patience_s: float = 600) -> Limits:
    return Limits(cores=cores, budget_bytes=int(budget * GIB), margin_bytes=GIB, patience_s=patience_s)


def wants(number: int, need: float = 1, expected_s: float = 10, waited_s: float = 0, recipe: str = "a") -> Waiting:
    return Waiting(number, recipe, int(need * GIB), expected_s, waited_s)


def runs(reserved: float = 1, used: float = 0, age_s: float = 5, recipe: str = "a") -> Running:
    return Running(recipe, int(reserved * GIB), int(used * GIB), age_s)


def state(
    waiting: list[Waiting], running: list[Running] | None = None, capacity: float = 100, of: Limits | None = None
) -> State:
    return State(of or limits(), tuple(running or ()), tuple(waiting), int(capacity * GIB))


# --- one rule at a time -----------------------------------------------------------------------------------------------


def test_nothing_to_do() -> None:
    assert decide(state([])) == Decision()


def test_cores_bind() -> None:
    decision = decide(state([wants(n) for n in range(6)], [runs()]))
    assert decision.start == (0, 1, 2)
    assert decision.shortage is not None
    assert decision.shortage.of == "cores"


def test_the_budget_binds_and_what_does_not_fit_is_passed_over() -> None:
    decision = decide(state([wants(0, 12, 99), wants(1, 12, 50), wants(2, 7, 10)]))
    assert decision.start == (0, 2)
    assert decision.shortage is not None
    assert (decision.shortage.number, decision.shortage.of) == (1, "memory")
    assert (decision.shortage.need_bytes, decision.shortage.free_bytes) == (12 * GIB, GIB)


def test_other_programs_come_first() -> None:
    # 8 GiB can be had, one of them is the margin
    assert decide(state([wants(0, 5, 99), wants(1, 3, 50)], capacity=8)).start == (0,)


def test_a_step_is_charged_what_it_holds_when_that_is_more_than_it_said() -> None:
    assert free_bytes(state([], [runs(5, used=9), runs(5, used=1)])) == 6 * GIB
    assert decide(state([wants(0, 8)], [runs(5, used=1), runs(5, used=9)])).start == ()
    assert decide(state([wants(0, 8)], [runs(5, used=1), runs(5, used=2)])).start == (0,)


def test_one_always_runs() -> None:
    decision = decide(state([wants(0, 50), wants(1, 40)]))
    assert (decision.start, decision.alone) == ((1,), True)
    assert decide(state([wants(0, 50)], [runs()])).start == ()
    assert decide(state([wants(0, 2)], capacity=0)).alone


def test_the_longest_start_first_and_waiting_counts() -> None:
    one = limits(cores=1)
    assert decide(state([wants(0, 1, 10), wants(1, 1, 30), wants(2, 1, 20)], of=one)).start == (1,)
    assert decide(state([wants(0, 1, 10, waited_s=25), wants(1, 1, 30)], of=one)).start == (0,)
    assert decide(state([wants(1), wants(0)], of=one)).start == (0,)


def test_the_package_with_the_fewest_running_steps_is_next() -> None:
    decision = decide(
        state([wants(0, 1, 99), wants(1, 1, 98), wants(2, 1, 5, recipe="b"), wants(3, 1, 4, recipe="b")], [runs()])
    )
    assert decision.start == (2, 0, 3)


def test_room_is_kept_for_whoever_waited_too_long() -> None:
    waiting = [wants(0, 15, 10, waited_s=700), wants(1, 4, 99), wants(2, 2, 50)]
    # the old step of 10 GiB will end; what starts now must leave 15 of the 20 GiB free
    decision = decide(state(waiting, [runs(10, age_s=500)]))
    assert (decision.start, decision.held) == ((1,), 0)
    # a young one has taken that place already: it started after the patience ended
    assert decide(state(waiting, [runs(10, age_s=500), runs(4, age_s=50)])).start == ()
    # and once it fits, it starts before all others
    assert decide(state(waiting, [runs(4, age_s=50)])).start[0] == 0


def test_a_step_larger_than_the_machine_gets_its_turn() -> None:
    waiting = [wants(0, 50, waited_s=700), wants(1, 1)]
    assert decide(state(waiting, [runs()])).start == ()
    decision = decide(state(waiting))
    assert (decision.start, decision.alone) == ((0,), True)


def test_the_oldest_goes_first_when_several_are_out_of_patience() -> None:
    waiting = [wants(0, 1, 99, waited_s=601), wants(1, 1, 1, waited_s=900), wants(2, 1, 500)]
    assert decide(state(waiting, of=limits(cores=2))).start == (1, 0)


@pytest.mark.parametrize(
    ("cores", "total", "budget", "margin"),
    [(2, 24, 22.8, 1.2), (64, 256, 252, 4), (0, 2, 1.5, 0.5), (1, 0.5, 0.25, 0.5)],
)
def test_limits_of_machines(cores: int, total: float, budget: float, margin: float) -> None:
    found = machine_limits(cores, int(total * GIB))
    assert found.cores == max(1, cores)
    assert found.budget_bytes / GIB == pytest.approx(budget)
    assert found.margin_bytes / GIB == pytest.approx(margin)


def test_build_tools_get_a_few_more_jobs_than_cores() -> None:
    assert [inflight(cores) for cores in (1, 2, 8, 16, 64)] == [3, 4, 10, 20, 80]
    assert [packages_at_once(cores) for cores in (1, 2, 4, 64)] == [2, 2, 3, 4]


# --- any state --------------------------------------------------------------------------------------------------------

NEEDS = st.integers(0, 40 * GIB)
RECIPES = st.sampled_from("abc")
TIMES = st.floats(0, 3000, allow_nan=False)


@st.composite
def states(draw: st.DrawFn) -> State:
    waiting = draw(st.lists(st.tuples(RECIPES, NEEDS, TIMES, TIMES), max_size=12))
    running = draw(st.lists(st.builds(Running, RECIPES, NEEDS, NEEDS, TIMES), max_size=8))
    return State(
        Limits(draw(st.integers(1, 8)), draw(st.integers(1, 60 * GIB)), draw(st.integers(0, 4 * GIB)), 600.0),
        tuple(running),
        tuple(Waiting(n, *each) for n, each in enumerate(waiting)),
        draw(st.integers(0, 80 * GIB)),
    )


@given(states())
@settings(max_examples=200, deadline=None)
def test_never_over_cores_or_memory_and_always_progress(now: State) -> None:
    decision = decide(now)
    needs = {step.number: step.need_bytes for step in now.waiting}
    assert len(set(decision.start)) == len(decision.start)
    assert set(decision.start) <= set(needs)
    started = sum(needs[number] for number in decision.start)
    if decision.alone:
        assert (len(decision.start), now.running) == (1, ())
    elif decision.start:
        assert len(now.running) + len(decision.start) <= now.limits.cores
        charged = sum(step.charge_bytes for step in now.running) + started
        assert charged <= now.limits.budget_bytes
        assert charged + now.limits.margin_bytes <= now.capacity_bytes
    if now.waiting and not now.running:
        assert decision.start
    assert (decision.shortage is None) == (len(decision.start) == len(now.waiting))


@given(states(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_order_does_not_matter(now: State, rng: random.Random) -> None:
    waiting, running = list(now.waiting), list(now.running)
    rng.shuffle(waiting)
    rng.shuffle(running)
    assert decide(State(now.limits, tuple(running), tuple(waiting), now.capacity_bytes)) == decide(now)


@given(states())
@settings(max_examples=150, deadline=None)
def test_nothing_fitting_is_left_unless_room_is_kept(now: State) -> None:
    decision = decide(now)
    if decision.held is not None or decision.alone:
        return
    left = [step for step in now.waiting if step.number not in decision.start]
    started = [step for step in now.waiting if step.number in decision.start]
    if len(now.running) + len(started) < now.limits.cores:
        room = free_bytes(now) - sum(step.need_bytes for step in started)
        assert all(step.need_bytes > room for step in left)


# --- whole runs -------------------------------------------------------------------------------------------------------


def flood(seed: int, patience_s: float, seconds: int) -> tuple[float, int]:
    """Small steps run and arrive for ever; how long does a large one wait that comes at 5 s?

    Also the most memory reserved at any time.
    """
    rng = random.Random(seed)
    of = limits(cores=4, budget=20, patience_s=patience_s)
    waiting: dict[int, tuple[float, float, float, str]] = {}
    running: dict[int, tuple[float, float, float, str]] = {}
    number, most = 1, 0
    for second in range(seconds):
        running = {n: step for n, step in running.items() if step[0] + step[2] > second}
        if second == 5:
            waiting[0] = (5.0, 18.0, 30.0, "big")
        while len(waiting) < 6:
            waiting[number] = (float(second), rng.uniform(3, 6), rng.uniform(5, 40), rng.choice("xyz"))
            number += 1
        decision = decide(
            State(
                of,
                tuple(Running(r, int(m * GIB), 0, second - began) for began, m, _s, r in running.values()),
                tuple(Waiting(n, r, int(m * GIB), s, second - asked) for n, (asked, m, s, r) in waiting.items()),
                1000 * GIB,
            )
        )
        for n in decision.start:
            _asked, need, took, recipe = waiting.pop(n)
            running[n] = (float(second), need, took, recipe)
            if n == 0:
                return second - 5.0, most
        most = max(most, int(sum(step[1] for step in running.values()) * GIB))
        assert len(running) <= of.cores
    return float("inf"), most


@pytest.mark.parametrize("seed", range(20))
def test_a_large_step_is_not_starved_by_small_ones(seed: int) -> None:
    waited, most = flood(seed, patience_s=100, seconds=400)
    assert waited <= 100 + 40 + 1  # patience, then at most the longest step that ran by then
    assert most <= 20 * GIB


def test_without_patience_it_would_be() -> None:
    assert flood(1, patience_s=1e9, seconds=400)[0] == float("inf")


@pytest.mark.parametrize("seed", range(10))
def test_every_step_of_a_flood_starts(seed: int) -> None:
    """Whatever it needs and whoever comes after it: no step waits longer than patience plus the queue it stood in."""
    rng = random.Random(seed)
    of = limits(cores=3, budget=16, patience_s=60)
    waiting: dict[int, tuple[int, float, int]] = {}
    running: dict[int, tuple[int, float, int]] = {}
    waited: list[int] = []
    shares: Counter[str] = Counter()
    for second in range(1500):
        running = {n: step for n, step in running.items() if step[0] + step[2] > second}
        if second % 4 == 0 and len(waiting) < 12:
            waiting[second] = (second, rng.choice([1, 1, 1, 2, 4, 15, 30]), rng.randint(2, 12))
        decision = decide(
            State(
                of,
                tuple(Running("ab"[n % 2], int(m * GIB), 0, second - began) for n, (began, m, _) in running.items()),
                tuple(Waiting(n, "ab"[n % 2], int(m * GIB), s, second - a) for n, (a, m, s) in waiting.items()),
                1000 * GIB,
            )
        )
        for n in decision.start:
            asked, need, took = waiting.pop(n)
            waited.append(second - asked)
            running[n] = (second, need, took)
            shares["ab"[n % 2]] += 1
    assert len(waited) > 150
    # at most 12 stand in the queue, each runs 12 s at most, alone in the worst case
    assert max(waited) <= 60 + 12 * 12
    assert min(shares.values()) > 0


@pytest.mark.parametrize(("cores", "gib", "most"), [(2, 24, 1.02), (16, 128, 1.1), (64, 256, 1.7)])
def test_simulated_builds_come_near_the_bound_within_memory(cores: int, gib: int, most: float) -> None:
    """72 units like flash-attn's and two small packages, in virtual time (tests/bench/bench_jobs.py)."""
    rows = {str(row["way"]): row for row in bench_jobs.measure(cores, gib, seeds=1)}
    assert 1 <= rows["known"]["over_bound"] <= most
    assert rows["known"]["wall_h"] < rows["fixed"]["wall_h"]
    assert rows["fresh"]["wall_h"] <= rows["fixed"]["wall_h"]
    assert rows["known"]["fits"]
    assert rows["fresh"]["fits"]
