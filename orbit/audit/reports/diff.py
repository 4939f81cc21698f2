"""What changed between two audited targets: two builds of an environment, two images, a wheel and its successor.

Findings are matched by their identity without counts (:func:`orbit.audit.reports.report.identities`), then by rule and
subject, so that "2 of 14 containers" becoming "3 of 15" is one change and not a fix and a new failure. What only one
side was judged by is not compared: a rule that did not run proves nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from orbit.audit.reports.report import (
    DepthTarget,
    LibraryCoverage,
    LoaderRow,
    TargetReport,
    identities,
    load_reports,
)
from orbit.audit.reports.view import WEIGHT
from orbit.core.findings import Finding
from orbit.core.records import Record
from orbit.errors import InputError

SCHEMA = "orbit.audit-diff/1"
RANK = {"sass": 0, "ptx-jit": 1, "none": 2}
NOT_ABOUT_THE_TARGET = {"remembered_digests"}
"""Facts that say how the audit went."""


class Change(Record, frozen=True, kw_only=True):
    """One named value before and after; empty where it is not there."""

    name: str
    before: str
    after: str


class NumberChange(Record, frozen=True, kw_only=True):
    """One number before and after."""

    name: str
    before: int
    after: int


class FindingChange(Record, frozen=True, kw_only=True):
    """One finding that both sides have, with other numbers, severity or waiver."""

    before: Finding
    after: Finding


class CoverageChange(Record, frozen=True, kw_only=True):
    """Device code of one file before and after; None on the side that has no such file."""

    file: str
    before: LibraryCoverage | None
    after: LibraryCoverage | None
    results: tuple[Change, ...]
    """Targets for which the result (``sass``, ``ptx-jit``, ``none``) changed."""


class LoaderChange(Record, frozen=True, kw_only=True):
    """One NEEDED entry before and after; None on the side that has it not."""

    file: str
    soname: str
    before: LoaderRow | None
    after: LoaderRow | None


class DepthChange(Record, frozen=True, kw_only=True):
    """Kernels of one file on one target before and after."""

    file: str
    target: str
    before: DepthTarget | None
    after: DepthTarget | None


class ReportDiff(Record, frozen=True, kw_only=True):
    """The difference of two reports."""

    schema: str = SCHEMA
    a: str
    """The target of the first report."""
    b: str
    worse: bool
    """A new fatal finding, one that became fatal, or a file with a poorer result for a target than before."""
    new: tuple[Finding, ...]
    fixed: tuple[Finding, ...]
    changed: tuple[FindingChange, ...]
    not_compared: dict[str, int]
    """Rules that judged one side only, with the number of their findings there."""
    distributions: tuple[Change, ...]
    coverage: tuple[CoverageChange, ...]
    architectures: tuple[NumberChange, ...]
    """Bytes by architecture."""
    libraries: tuple[Change, ...]
    """Releases that libraries state of themselves, by family and file."""
    loader: tuple[LoaderChange, ...]
    depth: tuple[DepthChange, ...]
    facts: tuple[NumberChange, ...]

    @property
    def same(self) -> bool:
        """Whether nothing at all differs in what both sides say."""
        findings = (*self.new, *self.fixed, *self.changed)
        code = (*self.coverage, *self.architectures, *self.depth)
        return not any((findings, code, self.distributions, self.libraries, self.loader, self.facts))


def load_report(path: Path) -> TargetReport:
    """The one report in a saved file. Raises :class:`InputError` when it has none or several."""
    reports = load_reports(path)
    if len(reports) != 1:
        raise InputError(
            f"{path}: holds {len(reports)} reports", fix="compare one target with one: audit each of them by itself"
        )
    return reports[0]


def diff_reports(a: TargetReport, b: TargetReport) -> ReportDiff:
    """What is different in ``b``."""
    both = set(a.rules) & set(b.rules)
    odd = Counter(finding.rule for finding in (*a.findings, *b.findings) if finding.rule not in both)
    new, fixed, changed = _findings(
        [finding for finding in a.findings if finding.rule in both],
        [finding for finding in b.findings if finding.rule in both],
    )
    coverage = tuple(_coverage(a, b))
    return ReportDiff(
        a=a.target,
        b=b.target,
        worse=any(finding.fatal for finding in new)
        or any(pair.after.fatal and not pair.before.fatal for pair in changed)
        or any(RANK[result.after] > RANK[result.before] for change in coverage for result in change.results),
        new=new,
        fixed=fixed,
        changed=changed,
        not_compared={rule: odd[rule] for rule in sorted((set(a.rules) ^ set(b.rules)) | set(odd))},
        distributions=tuple(_texts(a.distributions, b.distributions)),
        coverage=coverage,
        architectures=tuple(_numbers(_bytes(a), _bytes(b))),
        libraries=tuple(_texts(_releases(a), _releases(b))),
        loader=tuple(_loader(a, b)),
        depth=tuple(_depth(a, b)),
        facts=tuple(
            _numbers(*({k: v for k, v in side.facts.items() if k not in NOT_ABOUT_THE_TARGET} for side in (a, b)))
        ),
    )


def _findings(
    a: list[Finding], b: list[Finding]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...], tuple[FindingChange, ...]]:
    """(new, fixed, changed), the worst first."""
    before = dict(zip(identities(tuple(a)), a, strict=True))
    after = dict(zip(identities(tuple(b)), b, strict=True))
    pairs = [(before[key], after[key]) for key in before if key in after]
    waiting: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for key, finding in before.items():
        if key not in after:
            waiting[finding.rule, finding.subject].append(finding)
    new = []
    for key, finding in after.items():
        if key not in before:
            same = waiting.get((finding.rule, finding.subject))
            if same:
                pairs.append((same.pop(0), finding))
            else:
                new.append(finding)
    fixed = [finding for left in waiting.values() for finding in left]
    changed = [FindingChange(before=old, after=now) for old, now in pairs if old != now]
    return (
        tuple(sorted(new, key=_weight)),
        tuple(sorted(fixed, key=_weight)),
        tuple(sorted(changed, key=lambda pair: _weight(pair.after))),
    )


def _weight(finding: Finding) -> tuple[bool, int]:
    return bool(finding.waiver), WEIGHT[finding.severity]


def _coverage(a: TargetReport, b: TargetReport) -> Iterator[CoverageChange]:
    before = {item.file: item for item in a.coverage}
    after = {item.file: item for item in b.coverage}
    for file in _keys(before, after):
        old, now = before.get(file), after.get(file)
        if old is None or now is None or msgspec.structs.replace(now, distribution=old.distribution) != old:
            results = tuple(_texts(_results(old), _results(now))) if old and now else ()
            yield CoverageChange(
                file=file, before=old, after=now, results=tuple(r for r in results if r.before and r.after)
            )


def _results(item: LibraryCoverage) -> dict[str, str]:
    return {target.target: item.result(target) for target in item.targets}


def _bytes(report: TargetReport) -> dict[str, int]:
    return {item.arch: item.payload_bytes for item in report.architectures}


def _releases(report: TargetReport) -> dict[str, str]:
    return {f"{item.family} {item.file}": item.release or "not stated" for item in report.libraries}


def _loader(a: TargetReport, b: TargetReport) -> Iterator[LoaderChange]:
    before = {(row.file, row.soname): row for row in a.loader}
    after = {(row.file, row.soname): row for row in b.loader}
    for file, soname in _keys(before, after):
        old, now = before.get((file, soname)), after.get((file, soname))
        if old != now:
            yield LoaderChange(file=file, soname=soname, before=old, after=now)


def _depth(a: TargetReport, b: TargetReport) -> Iterator[DepthChange]:
    if not (a.depth and b.depth):
        return  # one side was not read that deep
    before = {(item.file, target.target): target for item in a.depth for target in item.targets}
    after = {(item.file, target.target): target for item in b.depth for target in item.targets}
    for file, name in _keys(before, after):
        old, now = before.get((file, name)), after.get((file, name))
        if old != now:
            yield DepthChange(file=file, target=name, before=old, after=now)


def _texts(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name in _keys(before, after):
        if before.get(name) != after.get(name):
            yield Change(name=name, before=before.get(name, ""), after=after.get(name, ""))


def _numbers(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[NumberChange]:
    for name in _keys(before, after):
        if before.get(name, 0) != after.get(name, 0):
            yield NumberChange(name=name, before=before.get(name, 0), after=after.get(name, 0))


def _keys[K](*sides: Iterable[K]) -> list[K]:
    return list(dict.fromkeys(key for side in sides for key in side))
