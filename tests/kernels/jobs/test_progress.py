"""Progress: counts, the time left and its lower bounds, what is waited for, and when a line is due."""

from __future__ import annotations

import time

import pytest

from orbit.kernels.jobs.estimates import Estimator, Known, fallback
from orbit.kernels.jobs.policy import GIB, Limits, Shortage
from orbit.kernels.jobs.progress import (
    HEARTBEAT_S,
    QUIET_S,
    Overall,
    PackageProgress,
    Remaining,
    Reporter,
    duration,
    eta_s,
    headline,
    overall,
    package_progress,
    reported,
    waits_for,
)
from orbit.kernels.jobs.steps import Key, Line
from orbit.kernels.jobs.view import PackageView, ServerView
from tests.kernels.jobs.writers import cached, estimator, line, measured

LIMITS = Limits(cores=4, budget_bytes=20 * GIB, margin_bytes=0)


def view(
    known: Estimator,
    finished: tuple[Line, ...] = (),
    *,
    count: tuple[int, int] | None = None,
    running: tuple[tuple[Key, float], ...] = (),
    waiting: int = 0,
    still: bool = True,
) -> PackageView:
    return PackageView(
        recipe=known.known.recipe, estimator=known, count=count, finished=finished, running=running, waiting=waiting,
        open=still,
    )  # fmt: skip


def unit(source: str, seconds: float = 10.0) -> list[object]:
    return [measured(source, "cicc", "sm_90a", seconds), measured(source, "ptxas", "sm_90a", 2 * seconds),
            measured(source, "cicc", "sm_100a", seconds), measured(source, "host", "", 5.0)]  # fmt: skip


TWO = estimator(steps=[*unit("x.cu"), *unit("y.cu")], archs=2)  # type: ignore[list-item]


def test_everything_remains_before_the_first_step() -> None:
    found = package_progress(view(TWO))
    assert (found.done, found.total) == (0, 2)
    assert found.remaining.cpu_s == 90.0
    assert found.remaining.chain_s == 35.0  # cicc, ptxas and host of the slower architecture
    assert found.remaining.byte_s == pytest.approx(90.0 * GIB * 1.05)


def test_what_ended_and_what_runs_is_subtracted() -> None:
    finished = (line("x.cu", "cicc", "sm_90a"), cached("x.cu", "cicc", "sm_100a"))
    found = package_progress(view(TWO, finished, running=((Key("ptxas", "x.cu", "sm_90a"), 15.0),)))
    assert found.cached == 1
    assert found.cpu_s == 10.0
    assert found.remaining.cpu_s == pytest.approx(45.0 + 5.0 + 5.0)
    late = package_progress(view(TWO, finished, running=((Key("ptxas", "x.cu", "sm_90a"), 500.0),)))
    assert late.remaining.cpu_s == pytest.approx(45.0 + 5.0)


def test_a_failed_step_is_not_done() -> None:
    assert package_progress(view(TWO, (line("x.cu", status=1),))).done == 0
    assert package_progress(view(TWO, (line("x.cu"),))).done == 1


def test_the_build_tools_count_is_believed() -> None:
    # this version has four units: the two known ones stand for all
    found = package_progress(view(TWO, count=(0, 4)))
    assert (found.done, found.total) == (0, 4)
    assert found.remaining.cpu_s == 180.0
    assert found.remaining.chain_s == 35.0
    assert package_progress(view(TWO, count=(4, 4))).remaining.cpu_s == 0.0


def test_without_measures_the_mean_of_this_run_then_the_recipe() -> None:
    fresh = estimator(unit_cpu_s=100.0)
    assert package_progress(view(fresh, count=(0, 10))).remaining.cpu_s == 1000.0
    done = (line("x.cu", "cicc", "sm_90a", seconds=30.0), line("x.cu", seconds=10.0))
    assert package_progress(view(fresh, done, count=(1, 10))).remaining.cpu_s == 9 * 40.0
    assert package_progress(view(fresh)).remaining.cpu_s == 0.0  # nobody knows how many


def test_before_anybody_counts_the_recipe_s_number_is_the_total() -> None:
    recipe = Estimator(Known(recipe="thing"), fallback(1.0, 1.0, 72, 2))
    found = package_progress(view(recipe))
    assert (found.done, found.total) == (0, 72)
    assert found.remaining.cpu_s == 3600.0
    assert package_progress(view(recipe, count=(1, 73))).total == 73


def test_a_slower_machine_is_noticed() -> None:
    took = (("cicc", "sm_90a", 20.0), ("ptxas", "sm_90a", 40.0), ("cicc", "sm_100a", 20.0))
    finished = tuple(line("x.cu", step, arch, seconds=seconds) for step, arch, seconds in took)
    assert package_progress(view(TWO, finished)).remaining.cpu_s == pytest.approx((45.0 + 5.0) * 2)
    # two steps are no evidence
    assert package_progress(view(TWO, finished[:2])).remaining.cpu_s == pytest.approx(45.0 + 15.0)


def test_compiler_trials_are_no_units() -> None:
    assert package_progress(view(TWO, (line("probe"),))).done == 0


def test_an_ended_package_has_nothing_left() -> None:
    assert package_progress(view(TWO, still=False)).remaining == Remaining(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("remaining", "expected"),
    [
        ([], 0.0),
        ([Remaining(100.0, 10.0, 0.0)], 25.0),
        ([Remaining(100.0, 60.0, 0.0)], 60.0),
        ([Remaining(100.0, 10.0, 0.0), Remaining(300.0, 20.0, 0.0)], 100.0),
        ([Remaining(100.0, 10.0, 100.0 * 10 * GIB)], 50.0),  # ten GiB each: two at a time
    ],
)
def test_the_largest_bound_is_the_time_left(remaining: list[Remaining], expected: float) -> None:
    assert eta_s(remaining, LIMITS) == pytest.approx(expected)


def test_efficiency_counts_running_steps_and_only_this_runs_time() -> None:
    seen = ServerView(
        (view(TWO, (line("x.cu", "cicc", "sm_90a", seconds=30.0),), running=((Key("host", "y.cu", ""), 10.0),)),),
        LIMITS, None, now_s=120.0,
    )  # fmt: skip
    assert overall(seen, began_s=100.0).efficiency == pytest.approx(40.0 / (20.0 * 4))
    assert overall(seen, began_s=120.0).efficiency == 0.0
    assert overall(ServerView((), LIMITS, None, 5.0)).eta_s is None


def package(done: int, total: int = 30, **changes: int) -> PackageProgress:
    words = {"running": 2, "waiting": 4, "cached": 7} | changes
    return PackageProgress("flash-attn", done, total, cpu_s=1.0, remaining=Remaining(1.0, 1.0, 1.0), **words)


def told(wall_s: float, done: int = 3, shortage: Shortage | None = None) -> Overall:
    return Overall((package(done),), wall_s, 0.93, 700.0, shortage)


class Told:
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.advances: list[tuple[str, int, int]] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def advance(self, what: str, done: int, total: int, unit: str = "") -> None:
        self.advances.append((what, done, total))


def test_the_line_people_read() -> None:
    assert headline(told(1.0)) == (
        "flash-attn 3/30; steps: 2 running, 4 waiting, 7 cached, cores used 93 %, about 12 min left; units done"
    )
    empty = Overall((), 1.0, 0.0, None, None)
    assert headline(empty) == "kernels; steps: 0 running, 0 waiting, cores used 0 %, time left unknown; units done"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "about 0 s"), (89.0, "about 89 s"), (700.0, "about 12 min"), (12600.0, "about 3.5 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


MEMORY = Shortage(1, "memory", 10 * GIB, 3 * GIB)


def test_why_nothing_starts() -> None:
    assert waits_for(MEMORY) == "the next step waits for memory: it needs 10.0 GiB, 3.0 GiB is free for it"
    assert waits_for(Shortage(1, "cores", 1, 1)) == "all cores are busy"


def test_a_line_is_due_when_something_is_done_and_now_and_then() -> None:
    seen = Told()
    reporter = Reporter(seen)
    reporter.tell(told(0.0), 1)
    reporter.tell(told(1.0), 1)
    assert len(seen.advances) == 1
    reporter.tell(told(2.0, done=4), 2)
    assert [(done, total) for _, done, total in seen.advances] == [(3, 30), (4, 30)]
    reporter.tell(told(1.9 + HEARTBEAT_S, done=4), 2)
    assert len(seen.advances) == 2
    reporter.tell(told(2.0 + HEARTBEAT_S, done=4), 2)
    assert len(seen.advances) == 3


def test_the_reason_is_said_when_nothing_moves_once() -> None:
    seen = Told()
    reporter = Reporter(seen)
    reporter.tell(told(0.0, shortage=MEMORY), 5)
    reporter.tell(told(QUIET_S - 0.1, shortage=MEMORY), 5)
    assert seen.steps == []
    reporter.tell(told(QUIET_S + 0.1, shortage=MEMORY), 5)
    reporter.tell(told(QUIET_S + 5, shortage=MEMORY), 5)
    assert seen.steps == [waits_for(MEMORY)]
    reporter.tell(told(QUIET_S + 6, shortage=MEMORY), 6)  # a step ended
    reporter.tell(told(QUIET_S + 7, shortage=MEMORY), 6)
    assert len(seen.steps) == 1
    reporter.tell(told(2 * QUIET_S + 7, shortage=MEMORY), 6)
    assert len(seen.steps) == 2
    reporter.tell(told(99.0, shortage=Shortage(1, "cores", 1, 1)), 6)
    assert len(seen.steps) == 2


def test_a_thread_reports_while_the_body_runs() -> None:
    seen = Told()
    began = time.monotonic()

    def now() -> ServerView:
        return ServerView((view(TWO, count=(1, 2)),), LIMITS, None, time.monotonic() - began)

    with reported(now, seen, poll_s=0.01):
        deadline = time.monotonic() + 10
        while not seen.advances and time.monotonic() < deadline:
            time.sleep(0.01)
    assert seen.advances[0][1:] == (1, 2)
