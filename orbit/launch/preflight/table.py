"""The reports of all nodes for people: the decision, the reasons, then the nodes. At most 100 columns; a thousand nodes
are as many lines as there are reasons."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from orbit.core.amounts import format_seconds
from orbit.launch.preflight.crowd import Verdict, grouped
from orbit.launch.preflight.model import NodeReport, State
from orbit.launch.preflight.ranges import compress

WIDTH = 100
MOST_ROWS = 16
"""So many nodes have a line each; more are counted."""
MOST_DIFFERENCES = 40
MOST_HOSTS = 400
"""Characters of host names under one reason."""
TITLES = {State.FAILED: "unfit", State.WARNING: "note"}


def render(reports: Sequence[NodeReport], verdict: Verdict | None = None) -> str:
    """One table for all nodes. Without ``verdict``: what the nodes say, and nothing is decided."""
    ordered = sorted(reports, key=lambda report: report.rank)
    lines = [*_head(ordered, verdict), *_reasons(ordered, State.FAILED)]
    if verdict is not None:
        lines += _verdict(verdict)
    lines += _reasons(ordered, State.WARNING)
    if 1 < len(ordered) <= MOST_ROWS:
        lines += _rows(ordered)
    lines += _counts(ordered)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _head(reports: Sequence[NodeReport], verdict: Verdict | None) -> Iterator[str]:
    fit = sum(report.fit for report in reports)
    slowest = max((report.seconds for report in reports), default=0.0)
    missing = f", {len(verdict.missing)} missing" if verdict is not None and verdict.missing else ""
    yield (
        f"preflight: {len(reports)} {'node' if len(reports) == 1 else 'nodes'}, {fit} fit, {len(reports) - fit} unfit"
        f"{missing} (slowest {format_seconds(slowest)})"
    )
    if verdict is not None:
        yield from _wrapped("GO: " if verdict.go else "STOP: ", verdict.reason)


def _reasons(reports: Sequence[NodeReport], state: State) -> Iterator[str]:
    for name, message, fix, who in grouped(reports, state):
        hosts = compress(report.host for report in who)
        count = f", {len(who)} nodes" if len(who) > 1 else ""
        yield ""
        yield f"{TITLES[state]}: {name}{count}"
        if len(reports) > 1:
            yield from _wrapped("  on   ", textwrap.shorten(hosts, MOST_HOSTS, placeholder=" ..."))
        yield from _wrapped("  what ", message)
        yield from _wrapped("  fix  ", fix)


def _verdict(verdict: Verdict) -> Iterator[str]:
    """What is not in a check of a node: who did not come, who runs something else."""
    if verdict.missing:
        yield ""
        yield f"missing: {len(verdict.missing)} nodes"
        yield from _wrapped("  on   ", compress(f"rank {rank}" for rank in verdict.missing))
        yield from _wrapped(
            "  fix  ", "are their containers running? orbit launch status; a larger late_minutes waits longer"
        )
    if verdict.differences:
        yield ""
        yield "not the same on all nodes:"
        for line in verdict.differences[:MOST_DIFFERENCES]:
            yield f"  {textwrap.shorten(line, WIDTH - 2, placeholder=' ...') if len(line) > WIDTH - 2 else line}"
        rest = len(verdict.differences) - MOST_DIFFERENCES
        if rest > 0:
            yield f"  and {rest} more"


def _rows(reports: Sequence[NodeReport]) -> Iterator[str]:
    """A line for each node, with its GPUs and the names of what failed."""
    width = min(30, max(4, *(len(report.host) for report in reports)))
    yield ""
    yield f"{'rank':>4}  {'host':{width}}  {'state':5}  {'time':>8}  what"
    for report in reports:
        failed = [check.name for check in report.checks if check.state is State.FAILED]
        warned = [check.name for check in report.checks if check.state is State.WARNING]
        what = ", ".join(failed) or (f"notes: {', '.join(warned)}" if warned else "")
        line = f"{report.rank:>4}  {textwrap.shorten(report.host, width, placeholder='...'):{width}}  "
        line += f"{'fit' if report.fit else 'UNFIT':5}  {format_seconds(report.seconds):>8}  "
        yield line + textwrap.shorten(what, WIDTH - len(line), placeholder=" ...")


def _counts(reports: Sequence[NodeReport]) -> Iterator[str]:
    """What was not looked at, with the reason, and how much was."""
    passed = Counter(check.name for report in reports for check in report.checks if check.state is State.PASSED)
    skipped: dict[str, list[str]] = {}
    for _name, message, _fix, _who in grouped(reports, State.SKIPPED):
        skipped.setdefault(message, []).append(_name)
    yield ""
    yield f"passed: {len(passed)} kinds of checks, {sum(passed.values())} checks"
    for message, names in skipped.items():
        yield from _wrapped(f"skipped: {', '.join(names)}: ", message)


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent=label if len(label) < WIDTH // 2 else "  ",
        subsequent_indent=" " * min(len(label), 8),
        break_on_hyphens=False,
    ) or [label]
