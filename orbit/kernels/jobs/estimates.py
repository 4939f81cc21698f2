"""What a step will need, from what earlier runs measured: ``estimates/RECIPE.json`` in the store.

Estimates decide when a step starts and what people are told, never what is built: they enter no wheel's key.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orbit.core.records import Record, dump_json, load_json
from orbit.errors import InputError
from orbit.kernels.jobs.periodic import every
from orbit.kernels.jobs.steps import FOLLOWING, PROBE, Key, Line

SCHEMA = 1
KEPT_PEAKS = 5
MAX_STEPS = 20_000
"""Of one recipe; the ones not measured for the longest time go first."""
KEEP_S = 60.0
"""How often a running build's measures are written: a build that is killed loses no more than these."""
HEADROOM = 1.05
"""A reservation is this much above the highest peak seen: the same compiler on the same unit varies a little."""
STEP_SHARES = {"cudafe": 0.05, "cicc": 0.6, "ptxas": 0.25, "host": 0.1, "link": 0.05}
"""How a unit's cost is split before anything of its recipe was measured. Of CPU seconds, ``cicc`` took 53 % in
causal-conv1d, 85 % in flash-attn and 49 % in orbit-kernels, ``ptxas`` 37, 7 and 31 %."""
DEVICE_STEPS = ("cicc", "ptxas")
"""Steps that every architecture has one of."""
KILLED = (-9, 137)


class Measured(Record, frozen=True, kw_only=True):
    """One step as earlier runs saw it."""

    step: str
    source: str
    arch: str
    seconds: float
    """Of the latest run."""
    cpu_s: float
    peaks: tuple[int, ...]
    """Highest resident bytes of the last few runs, newest last."""
    partial: bool = False
    """It was killed and never ended: the numbers are lower bounds."""

    @property
    def key(self) -> Key:
        """Which step it is."""
        return Key(self.step, self.source, self.arch)


class Known(Record, frozen=True, kw_only=True):
    """Everything measured of one recipe, oldest first."""

    schema: int = SCHEMA
    recipe: str
    steps: tuple[Measured, ...] = ()


@dataclass(frozen=True, slots=True)
class Fallback:
    """What the recipe's author says, for as long as nothing was measured."""

    memory_bytes: int
    """While one architecture of one unit is compiled."""
    unit_cpu_s: float
    """CPU seconds of one translation unit, all architectures together."""
    archs: int = 1
    units: int = 0
    """Translation units, as the recipe counts them; 0 when it does not say."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a step will probably need."""

    seconds: float
    cpu_s: float
    peak_bytes: int
    origin: Literal["measured", "siblings", "recipe"]
    """This very step was measured; other steps of its recipe were; nothing was."""


def fallback(memory_gib: float, core_hours: float, units: int, archs: int) -> Fallback:
    """The estimate of a recipe that says ``memory_gib`` and ``core_hours`` for ``units`` translation units."""
    return Fallback(
        memory_bytes=int(memory_gib * 2**30),
        unit_cpu_s=core_hours * 3600 / max(1, units),
        archs=max(1, archs),
        units=units,
    )


class Estimator:
    """Answers for one recipe from what is known and what the recipe says."""

    def __init__(self, known: Known, default: Fallback) -> None:
        self.known = known
        self.default = default
        self._exact = {step.key: step for step in known.steps}
        groups: dict[str, list[Measured]] = defaultdict(list)
        for step in known.steps:
            if not step.partial and step.source != PROBE:
                groups[step.step].append(step)
        self._siblings = {name: _typical(steps) for name, steps in groups.items()}

    def expect(self, key: Key) -> Expected:
        """This step's own measure; else the median time and the 90th percentile of memory of the recipe's steps of its
        kind; else the recipe's words."""
        found = self._exact.get(key)
        if found is None:
            return self._unmeasured(key)
        peak = int(max(found.peaks) * HEADROOM)
        if not found.partial:
            return Expected(found.seconds, found.cpu_s, peak, "measured")
        other = self._unmeasured(key)
        return Expected(
            max(found.seconds, other.seconds),
            max(found.cpu_s, other.cpu_s),
            max(peak, other.peak_bytes),
            "measured",
        )

    def _unmeasured(self, key: Key) -> Expected:
        if typical := self._siblings.get(key.step):
            return typical
        share = STEP_SHARES[key.step] / (self.default.archs if key.step in DEVICE_STEPS else 1)
        return Expected(
            self.default.unit_cpu_s * share, self.default.unit_cpu_s * share, self.default.memory_bytes, "recipe"
        )

    def to_end_s(self, key: Key) -> float:
        """Expected seconds from the start of this step to the end of its translation unit."""
        after = (
            Key(step, key.source, key.arch if step in DEVICE_STEPS else "") for step in FOLLOWING.get(key.step, ())
        )
        return self.expect(key).seconds + sum(self.expect(one).seconds for one in after)

    def units(self) -> Mapping[str, tuple[Key, ...]]:
        """The known steps of every translation unit, by source."""
        found: dict[str, list[Key]] = defaultdict(list)
        for step in self.known.steps:
            if step.step != "link" and step.source != PROBE:
                found[step.source].append(step.key)
        return {source: tuple(keys) for source, keys in found.items()}


def _typical(steps: list[Measured]) -> Expected:
    peaks = sorted(max(step.peaks) for step in steps)
    high = peaks[min(len(peaks) - 1, (9 * len(peaks)) // 10)]
    return Expected(
        statistics.median(step.seconds for step in steps),
        statistics.median(step.cpu_s for step in steps),
        int(high * HEADROOM),
        "siblings",
    )


def merge(known: Known, lines: Iterable[Line]) -> Known:
    """``known`` with the steps of one run: latest times, the last few peaks.

    A step that failed says nothing about what it needs. One that was killed with SIGKILL, mostly for lack of memory,
    needed at least what it had: that raises the next reservation and lowers none.
    """
    steps = {step.key: step for step in known.steps}
    for line in lines:
        report = line.report
        if report is None or report.peak_bytes <= 0 or (report.status != 0 and report.status not in KILLED):
            continue
        before = steps.pop(line.key, None)
        killed = report.status != 0
        steps[line.key] = Measured(
            step=line.step,
            source=line.source,
            arch=line.arch,
            seconds=round(max(report.seconds, before.seconds) if killed and before else report.seconds, 3),
            cpu_s=round(max(report.cpu_s, before.cpu_s) if killed and before else report.cpu_s, 3),
            peaks=(*(before.peaks if before else ()), report.peak_bytes)[-KEPT_PEAKS:],
            partial=killed and (before is None or before.partial),
        )
    return Known(recipe=known.recipe, steps=tuple(steps.values())[-MAX_STEPS:])


def estimates_path(store_root: Path, recipe: str) -> Path:
    """Where the estimates of a recipe are."""
    return store_root / "estimates" / f"{recipe}.json"


def load_known(store_root: Path, recipe: str) -> Known:
    """What is known of a recipe; nothing when the file is absent, damaged, or another version's."""
    try:
        known = load_json(estimates_path(store_root, recipe), Known)
    except InputError:
        return Known(recipe=recipe)
    usable = known.schema == SCHEMA and known.recipe == recipe and all(step.peaks for step in known.steps)
    return known if usable else Known(recipe=recipe)


def remember(store_root: Path, recipe: str, lines: Iterable[Line]) -> Known:
    """Add one run's steps to the file. Two runs at once may lose one of them, never damage the file."""
    before = load_known(store_root, recipe)
    known = merge(before, lines)
    if known != before:
        dump_json(estimates_path(store_root, recipe), known)
    return known


@contextlib.contextmanager
def remembering(
    store_root: Path, recipe: str, lines: Callable[[], Sequence[Line]], every_s: float = KEEP_S
) -> Iterator[None]:
    """Write what is measured while the body runs, now and then and at its end, however it ends.

    ``lines`` gives all steps of the build that ended so far, as :meth:`JobServer.lines` does; each is taken once. Wrap
    this around :meth:`JobServer.build`, whose end takes in what clients sent last.
    """
    taken = 0

    def keep() -> None:
        nonlocal taken
        new = lines()[taken:]
        if new:
            remember(store_root, recipe, new)
            taken += len(new)

    def try_to_keep() -> None:
        # a full disk is reported by the build itself; the measures are tried again
        with contextlib.suppress(OSError):
            keep()

    try:
        with every(every_s, try_to_keep, f"estimates {recipe}"):
            yield
    finally:
        keep()
