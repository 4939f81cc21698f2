"""What the runs of one record prove by themselves: repeatable, finite, and a kernel's path near the plain one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from orbit.core.records import Record
from orbit.qualify.deltas import deltas, exceeded, outcome
from orbit.qualify.model import Definition, Kind
from orbit.qualify.records import Agreement, CaseRecord, CaseResult, Noise, Repeat, Verdict
from orbit.qualify.tape import Entry
from orbit.qualify.trace import Fetch, first_difference, label, same_structure, unequal

PLAIN = "torch"
"""The path all others are compared with."""


class Trial(Record, frozen=True, kw_only=True):
    """One run of one path in one type, as its process reported it."""

    path: str
    dtype: str
    status: Literal["ran", "skipped", "failed"]
    reason: str = ""
    phases: tuple[str, ...] = ()
    seconds: float = 0.0
    entries: tuple[Entry, ...] = ()


def judge_case(trials: Sequence[Trial], fetch: Fetch) -> CaseRecord:
    """One case from its runs, in order; still without :class:`Agreement`. ``fetch`` reads the bytes of any run."""
    first = trials[0]
    bad = next((trial for trial in trials if trial.status != "ran"), None)
    if bad is not None:
        result: CaseResult = "failed" if any(trial.status == "failed" for trial in trials) else "skipped"
        worst = next((trial for trial in trials if trial.status == "failed"), bad)
        return CaseRecord(path=first.path, dtype=first.dtype, result=result, reason=worst.reason)
    case = CaseRecord(
        path=first.path,
        dtype=first.dtype,
        result="proven",
        phases=first.phases,
        seconds=first.seconds,
        entries=first.entries,
    )
    for number, trial in enumerate(trials):
        reason = _not_finite(trial.entries) or same_structure(first.entries, trial.entries)
        if reason:
            return _with(case, "failed", f"run {number}: {reason}")
    repeats = tuple(_repeat(first.entries, trial.entries) for trial in trials[1:])
    case = _with(case, "proven", "", repeats=repeats)
    if not repeats:
        return _with(case, "not-repeatable", "ran once: nothing is known about its repeats")
    if all(repeat.equal for repeat in repeats):
        return case
    noise = _noise(trials, fetch)
    reason = f"repeats of one build differ, first in {noise.first.phase} {noise.first.name} ({noise.first.op})"
    return _with(case, "not-repeatable", reason, noise=noise)


def agree(cases: Sequence[CaseRecord], definition: Definition, fetch: Fetch) -> tuple[CaseRecord, ...]:
    """Compare each path with the plain one of its type; one that is further from it than the tolerance has failed."""
    plain = {case.dtype: case for case in cases if case.path == PLAIN}
    return tuple(_agree(case, plain.get(case.dtype), definition, fetch) for case in cases)


def verdict(cases: Sequence[CaseRecord], definition: Definition, kind: Kind) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict of a record, and each required case that is not proven, with its reason."""
    found = {case.key: case for case in cases}
    lacking = []
    for path in definition.required.get(kind, ()):
        own = [case for case in cases if case.path == path]
        if not own:
            lacking.append(f"{path}: not run")
        weak = [case for case in own if case.result != "proven"]
        lacking += [f"{case.path} {case.dtype}: {case.result}: {case.reason}" for case in weak]
    lacking += [f"{PLAIN} {dtype}: not run" for dtype in definition.dtypes if (PLAIN, dtype) not in found]
    if any(case.result == "failed" for case in cases):
        return "failed", tuple(lacking)
    return ("unproven" if lacking else "passed"), tuple(lacking)


def count(cases: Sequence[CaseRecord]) -> dict[CaseResult, int]:
    """How many cases have each result."""
    return dict(Counter(case.result for case in cases))


def _agree(case: CaseRecord, plain: CaseRecord | None, definition: Definition, fetch: Fetch) -> CaseRecord:
    usable = ("proven", "not-repeatable")
    if case.path == PLAIN or plain is None or plain.result not in usable or case.result not in usable:
        return case
    found = deltas(outcome(plain.entries, fetch), outcome(case.entries, fetch))
    beyond = exceeded(found, definition.tolerance("paths", case.dtype))
    case = _with(case, case.result, case.reason, agreement=Agreement(deltas=found, exceeded=beyond))
    return _with(case, "failed", f"not what {PLAIN} computes: {beyond[0]}") if beyond else case


def _with(case: CaseRecord, result: CaseResult, reason: str, **more: object) -> CaseRecord:
    return msgspec.structs.replace(case, result=result, reason=reason, **more)


def _not_finite(entries: Sequence[Entry]) -> str:
    for entry in entries:
        if entry.stats is not None and entry.stats.nonfinite:
            return f"{label(entry)} ({entry.op}) has {entry.stats.nonfinite} values that are not finite"
    return ""


def _repeat(first: Sequence[Entry], again: Sequence[Entry]) -> Repeat:
    theirs: Mapping[tuple[str, str], Entry] = {entry.key: entry for entry in again}
    changed = {label(first[place]): theirs[first[place].key].sha256 for place in unequal(first, again)}
    return Repeat(equal=not changed, changed=changed)


def _noise(trials: Sequence[Trial], fetch: Fetch) -> Noise:
    """Of the repeat that is furthest from the first run by its generated and given log-probs."""
    first = trials[0]
    start = outcome(first.entries, fetch)
    found = []
    for trial in trials[1:]:
        at = first_difference(first.entries, trial.entries, fetch, fetch)
        if at is not None:
            found.append(Noise(deltas=deltas(start, outcome(trial.entries, fetch)), first=at))
    return max(found, key=lambda noise: (_far(noise), -noise.first.order))


def _far(noise: Noise) -> float:
    forward = noise.deltas.forward
    return max(noise.deltas.decode.max, forward.max if forward else 0.0)
