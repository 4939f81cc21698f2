"""What a build really cost, from the lines of its steps: for ``orbit kernels costs`` and for the reports.

Every number here was measured by the shim or by the server's clock; what was reused is counted and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from orbit.core.records import Record, dump_json, load_json
from orbit.errors import InputError
from orbit.kernels.jobs.steps import Line

SCHEMA = 1
SLOWEST = 5
MIB = 1 << 20


class Unit(Record, frozen=True, kw_only=True):
    """One translation unit."""

    source: str
    cpu_s: float
    wall_s: float
    """From the start of its first step to the end of its last."""
    peak_bytes: int
    """Of its largest step."""


class PackageCost(Record, frozen=True, kw_only=True):
    """One build of one recipe."""

    schema: int = SCHEMA
    recipe: str
    cores: int
    """That the job server gave out, to all packages together."""
    wall_s: float
    """Of the whole build; configure and link steps that nobody admits included."""
    cpu_s: float
    """Of all steps that ran."""
    waited_s: float
    """Sum over the steps of the time between asking and starting."""
    peak_bytes: int
    """Resident memory of the largest step."""
    peak_sum_bytes: int
    """Largest sum of the peaks of steps that ran at the same time: an upper bound of what the package held."""
    reserved_sum_bytes: int
    """Largest sum of reservations at the same time."""
    steps: int
    """That ran, failed ones included."""
    cached: int
    failed: int
    slowest: tuple[Unit, ...]

    @property
    def efficiency(self) -> float:
        """CPU seconds over wall seconds times cores. Of a package that shared the cores it is its share of them."""
        return self.cpu_s / (self.wall_s * self.cores) if self.wall_s > 0 else 0.0


def package_cost(recipe: str, lines: Iterable[Line], *, wall_s: float, cores: int) -> PackageCost:
    """Sum up the steps of one build, or of several."""
    known = list(lines)
    ran = [line for line in known if not line.cached]
    reports = [line.report for line in ran if line.report is not None]
    return PackageCost(
        recipe=recipe,
        cores=cores,
        wall_s=round(wall_s, 3),
        cpu_s=round(sum(report.cpu_s for report in reports), 3),
        waited_s=round(sum(line.began_s - line.asked_s for line in ran), 3),
        peak_bytes=max((report.peak_bytes for report in reports), default=0),
        peak_sum_bytes=most_at_once([(x.began_s, x.ended_s, x.report.peak_bytes if x.report else 0) for x in ran]),
        reserved_sum_bytes=most_at_once([(line.began_s, line.ended_s, line.reserved_bytes) for line in ran]),
        steps=len(ran),
        cached=len(known) - len(ran),
        failed=sum(not line.ok for line in ran),
        slowest=slowest_units(ran),
    )


def most_at_once(spans: Sequence[tuple[float, float, int]]) -> int:
    """The largest sum of the values of (begin, end, value) spans that overlap; an end counts before a begin."""
    events = [(begin, 1, value) for begin, _end, value in spans] + [(end, 0, -value) for _begin, end, value in spans]
    total = most = 0
    for _moment, _kind, value in sorted(events):
        total += value
        most = max(most, total)
    return most


def slowest_units(lines: Iterable[Line], most: int = SLOWEST) -> tuple[Unit, ...]:
    """The units that took the most CPU seconds."""
    units: dict[str, list[Line]] = {}
    for line in lines:
        if line.report is not None and line.step != "link":
            units.setdefault(line.source, []).append(line)
    found = [
        Unit(
            source=source,
            cpu_s=round(sum(line.report.cpu_s for line in steps if line.report), 3),
            wall_s=round(max(line.ended_s for line in steps) - min(line.began_s for line in steps), 3),
            peak_bytes=max(line.report.peak_bytes for line in steps if line.report),
        )
        for source, steps in units.items()
    ]
    return tuple(sorted(found, key=lambda unit: (-unit.cpu_s, unit.source))[:most])


COLUMNS = ("package", "wall s", "CPU s", "cores used", "largest MiB", "at once MiB", "reserved MiB", "steps", "cached")


def cost_table(costs: Sequence[PackageCost]) -> str:
    """A table for people, then the slowest units of each package. A package of which nothing ran says so."""
    rows = [COLUMNS, *(_row(cost) for cost in costs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    table = [
        "  ".join(
            word.ljust(width) if n == 0 else word.rjust(width)
            for n, (word, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    table.insert(1, "-" * max(map(len, table)))
    units = [
        f"  {cost.recipe}: {unit.source}: {unit.cpu_s:.1f} CPU s in {unit.wall_s:.1f} s, {unit.peak_bytes // MIB} MiB"
        for cost in costs
        for unit in cost.slowest
    ]
    return "\n".join([*table, *(["", "slowest units", *units] if units else [])])


def _row(cost: PackageCost) -> tuple[str, ...]:
    if not cost.steps:
        return (cost.recipe, f"{cost.wall_s:.1f}", "-", "-", "-", "-", "-", "0", str(cost.cached))
    return (
        cost.recipe,
        f"{cost.wall_s:.1f}",
        f"{cost.cpu_s:.1f}",
        f"{100 * cost.efficiency:.0f} % of {cost.cores}",
        str(cost.peak_bytes // MIB),
        str(cost.peak_sum_bytes // MIB),
        str(cost.reserved_sum_bytes // MIB),
        f"{cost.steps}" + (f" ({cost.failed} failed)" if cost.failed else ""),
        str(cost.cached),
    )


def costs_path(store_root: Path, recipe: str) -> Path:
    """Where the costs of a recipe's latest real build are."""
    return store_root / "costs" / f"{recipe}.json"


def save_cost(store_root: Path, cost: PackageCost) -> None:
    """Keep the costs of a build in the place of the recipe's last one. Where nothing ran there is nothing to keep."""
    if cost.steps:
        dump_json(costs_path(store_root, cost.recipe), cost)


def load_costs(store_root: Path) -> tuple[PackageCost, ...]:
    """The costs of the latest real build of every recipe, by name. Damaged files count as absent."""
    found = []
    for path in sorted((store_root / "costs").glob("*.json")):
        try:
            cost = load_json(path, PackageCost)
        except InputError:
            continue
        if cost.schema == SCHEMA and cost.recipe == path.stem:
            found.append(cost)
    return tuple(sorted(found, key=lambda cost: cost.recipe))
