"""How far all packages are, how long it will take, and what they wait for.

The time left is estimated from CPU seconds that remain: from what earlier runs measured of the very steps that are
still to do, else from the mean of the units done in this run, else from what the recipe says. Three things bound it
from below, and the largest is shown: all work over all cores, the longest single unit, and memory over time against the
budget (ten steps of 10 GiB on 24 GiB run two by two, however many cores there are).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from orbit.core.console import Progress
from orbit.kernels.jobs.periodic import every
from orbit.kernels.jobs.policy import GIB, Limits, Shortage
from orbit.kernels.jobs.steps import PROBE, Key, Line
from orbit.kernels.jobs.view import PackageView, ServerView

POLL_S = 1.0
HEARTBEAT_S = 30.0
"""One step can take ten minutes: the line is repeated so that people see that work goes on."""
QUIET_S = 10.0
"""Nothing moved and something waits for this long: the reason is shown."""
PACE_STEPS = 3
PACE_LEAST, PACE_MOST = 0.25, 4.0
"""How far this run's measures may move the estimates of another machine."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What a package still needs, by estimate."""

    cpu_s: float
    chain_s: float
    """The longest unit: its steps follow each other whatever the number of cores."""
    byte_s: float
    """Memory times seconds."""


@dataclass(frozen=True, slots=True)
class PackageProgress:
    """One package in numbers."""

    recipe: str
    done: int
    """Translation units."""
    total: int
    """0 when nobody knows."""
    running: int
    waiting: int
    cached: int
    """Steps whose result was there already."""
    cpu_s: float
    remaining: Remaining


@dataclass(frozen=True, slots=True)
class Overall:
    """All packages in numbers."""

    packages: tuple[PackageProgress, ...]
    wall_s: float
    efficiency: float
    """CPU seconds of ended steps and seconds of running ones, over wall seconds times cores."""
    eta_s: float | None
    """None while nothing is known of what remains."""
    shortage: Shortage | None


def overall(view: ServerView, began_s: float = 0.0) -> Overall:
    """The numbers of ``view``; ``began_s`` is when the first build began, on the server's clock."""
    packages = tuple(package_progress(package) for package in view.packages)
    wall_s = max(0.0, view.now_s - began_s)
    busy_s = sum(p.cpu_s for p in packages) + sum(age for each in view.packages for _key, age in each.running)
    known = any(package.remaining.cpu_s > 0 for package in packages)
    return Overall(
        packages=packages,
        wall_s=wall_s,
        efficiency=busy_s / (wall_s * view.limits.cores) if wall_s > 0 else 0.0,
        eta_s=eta_s([package.remaining for package in packages], view.limits) if known else None,
        shortage=view.shortage,
    )


def eta_s(remaining: list[Remaining], limits: Limits) -> float:
    """Seconds until everything can be done at the earliest: cores, the longest chain, and memory over time."""
    cpu_s = sum(one.cpu_s for one in remaining) / limits.cores
    chain_s = max((one.chain_s for one in remaining), default=0.0)
    memory_s = sum(one.byte_s for one in remaining) / max(1, limits.budget_bytes)
    return max(cpu_s, chain_s, memory_s)


def package_progress(view: PackageView) -> PackageProgress:
    """Numbers of one package."""
    ended = {line.key for line in view.finished if line.ok}
    units = view.estimator.units()
    done = len({key.source for key in ended if key.step == "host" and key.source != PROBE})
    total = len(units) or view.estimator.default.units
    if view.count is not None:
        # what the build tool counts is right; what is known from earlier runs may be another version's
        done, total = max(done, view.count[0]), view.count[1]
    return PackageProgress(
        recipe=view.recipe,
        done=min(done, total) if total else done,
        total=total,
        running=len(view.running),
        waiting=view.waiting,
        cached=sum(line.cached for line in view.finished),
        cpu_s=sum(line.report.cpu_s for line in view.finished if line.report),
        remaining=_remaining(view, ended, max(0, total - done)) if view.open else Remaining(0.0, 0.0, 0.0),
    )


def _remaining(view: PackageView, ended: set[Key], units_left: int) -> Remaining:
    """The known units' missing steps, scaled to the number of units that are really left."""
    estimator = view.estimator
    if view.count is not None and not units_left:
        return Remaining(0.0, 0.0, 0.0)
    ages = dict(view.running)
    costs: list[Remaining] = []
    for keys in estimator.units().values():
        left = [key for key in keys if key not in ended]
        if left:
            costs.append(_unit([(key, ages.get(key, 0.0)) for key in left], view))
    if not costs:
        # nothing measured earlier: a unit costs what those done in this run did, else what the recipe says
        cpu_s = _mean_unit(view.finished) or estimator.default.unit_cpu_s
        costs = [Remaining(cpu_s, cpu_s / estimator.default.archs, cpu_s * estimator.default.memory_bytes)]
        if not units_left:
            return Remaining(0.0, 0.0, 0.0)
    pace = _pace(view)
    scale = pace * (units_left / len(costs) if units_left else 1.0)
    return Remaining(
        sum(one.cpu_s for one in costs) * scale,
        max(one.chain_s for one in costs) * pace,
        sum(one.byte_s for one in costs) * scale,
    )


def _unit(left: list[tuple[Key, float]], view: PackageView) -> Remaining:
    cpu_s = byte_s = 0.0
    chains: dict[str, float] = {}
    for key, age in left:
        expected = view.estimator.expect(key)
        share = max(0.0, 1.0 - age / expected.seconds) if expected.seconds > 0 else 0.0
        cpu_s += expected.cpu_s * share
        byte_s += expected.peak_bytes * expected.seconds * share
        chains[key.arch] = chains.get(key.arch, 0.0) + expected.seconds * share
    host_s = chains.pop("", 0.0)
    return Remaining(cpu_s, host_s + max(chains.values(), default=0.0), byte_s)


def _mean_unit(lines: tuple[Line, ...]) -> float:
    whole = {line.source for line in lines if line.ok and line.step == "host" and not line.cached} - {PROBE}
    spent = sum(line.report.cpu_s for line in lines if line.report and line.source in whole)
    return spent / len(whole) if whole else 0.0


def _pace(view: PackageView) -> float:
    """How much slower this run is than the runs the estimates come from."""
    pairs = [
        (line.report.cpu_s, view.estimator.expect(line.key))
        for line in view.finished
        if line.report is not None and line.ok
    ]
    known = [(spent, expected.cpu_s) for spent, expected in pairs if expected.origin == "measured"]
    if len(known) < PACE_STEPS or sum(expected for _, expected in known) <= 0:
        return 1.0
    return min(PACE_MOST, max(PACE_LEAST, sum(spent for spent, _ in known) / sum(expected for _, expected in known)))


def headline(now: Overall) -> str:
    """One line: packages at work, steps, efficiency, time left."""
    busy = [f"{each.recipe} {each.done}/{each.total or '?'}" for each in now.packages if each.running or each.waiting]
    running, waiting = sum(p.running for p in now.packages), sum(p.waiting for p in now.packages)
    words = [f"{running} running", f"{waiting} waiting"]
    if cached := sum(package.cached for package in now.packages):
        words.append(f"{cached} cached")
    words.append(f"cores used {100 * now.efficiency:.0f} %")
    words.append(f"{duration(now.eta_s)} left" if now.eta_s else "time left unknown")
    return f"{', '.join(busy) or 'kernels'}; steps: {', '.join(words)}; units done"


def waits_for(shortage: Shortage) -> str:
    """Why nothing new starts, as a sentence."""
    if shortage.of == "cores":
        return "all cores are busy"
    return (
        f"the next step waits for memory: it needs {shortage.need_bytes / GIB:.1f} GiB, "
        f"{shortage.free_bytes / GIB:.1f} GiB is free for it"
    )


def duration(seconds: float) -> str:
    """Seconds as people say them: ``about 40 s``, ``about 12 min``, ``about 3.5 h``."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


class Reporter:
    """Decides when a line is due. Fed with what is true now; holds only what was said last."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._shown: tuple[int, int] | None = None
        self._shown_s = float("-inf")
        self._moved_s = 0.0
        self._steps = 0
        self._said = ""

    def tell(self, now: Overall, steps: int) -> None:
        """Show what is new. ``steps`` is the number of steps ended so far."""
        count = (sum(p.done for p in now.packages), sum(p.total for p in now.packages))
        if steps != self._steps:
            self._steps, self._moved_s, self._said = steps, now.wall_s, ""
        if count != self._shown or now.wall_s - self._shown_s >= HEARTBEAT_S:
            self._shown, self._shown_s = count, now.wall_s
            self._progress.advance(headline(now), *count)
        if now.shortage and now.shortage.of == "memory" and now.wall_s - self._moved_s >= QUIET_S:
            said = waits_for(now.shortage)
            if said != self._said:
                self._said = said
                self._progress.step(said)


@contextlib.contextmanager
def reported(view: Callable[[], ServerView], progress: Progress, poll_s: float = POLL_S) -> Iterator[None]:
    """Show progress of all packages from a thread while the body runs."""
    reporter = Reporter(progress)
    began_s = view().now_s

    def look() -> None:
        seen = view()
        if any(package.open for package in seen.packages):
            reporter.tell(overall(seen, began_s), sum(len(package.finished) for package in seen.packages))

    with every(poll_s, look, "progress"):
        yield
