"""What people are shown of a report, before it becomes text or HTML: causes, what to do, what a file gives a target.

Shared by the renderers so that they tell one story. Pure functions over the records of
:mod:`orbit.audit.reports.report`.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from orbit.audit.reports.explain import title_of
from orbit.audit.reports.report import COUNTS, LibraryCoverage, TargetCoverage, TargetReport
from orbit.audit.rules.coverage import arch_coverage
from orbit.core.findings import Finding, Severity

SIMILAR = 2
"""More fixes of one rule than this are one thing to do."""
WEIGHT = {severity: position for position, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Cause:
    """Findings of one rule that have one reason and one remedy."""

    rule: str
    title: str
    """What the rule wants; empty for a rule that this version does not know."""
    severity: Severity
    waived: bool
    fix: str
    findings: tuple[Finding, ...]

    @property
    def message(self) -> str:
        """The sentence that holds for every finding; empty when they differ in more than nothing."""
        messages = {finding.message for finding in self.findings}
        return messages.pop() if len(messages) == 1 else ""

    @property
    def mark(self) -> str:
        """``error``, ``warning``, ``note`` or ``waived``."""
        return "waived" if self.waived else self.severity.value


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do, and what it settles."""

    fix: str
    rule: str
    severity: Severity
    subjects: tuple[str, ...]
    similar: int
    """How many more fixes of this rule stand beside the findings."""

    @property
    def about(self) -> str:
        """The first subject, and how many more there are."""
        more = f" and {len(self.subjects) - 1:,} more" if len(self.subjects) > 1 else ""
        others = f"; {self.similar:,} more fixes like this one stand with the findings" if self.similar else ""
        return f"{self.subjects[0]}{more}{others}"


def causes(report: TargetReport) -> tuple[Cause, ...]:
    """The findings grouped by cause: errors, then warnings, then notes, then what is waived.

    Within one weight the rules keep the report's order, which is causes before what they bring about.
    """
    groups: dict[tuple[bool, Severity, str, str, str], list[Finding]] = defaultdict(list)
    order: dict[str, int] = {}
    for finding in report.findings:
        order.setdefault(finding.rule, len(order))
        waived = bool(finding.waiver)
        shape = COUNTS.sub("#", finding.message)
        groups[waived, finding.severity, finding.rule, "" if waived else finding.fix, shape].append(finding)
    made = [
        Cause(rule, title_of(rule), severity, waived, fix, tuple(found))
        for (waived, severity, rule, fix, _shape), found in groups.items()
    ]
    return tuple(sorted(made, key=lambda cause: (cause.waived, WEIGHT[cause.severity], order[cause.rule])))


def actions(report: TargetReport, *, every: bool = False) -> tuple[Action, ...]:
    """What to do, most important first: fixes of errors, then of warnings; each once. Notes ask for nothing.

    A rule with many different fixes ("lock a release that has ...") is one line with its first, unless ``every``.
    """
    found: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for cause in causes(report):
        if cause.fix and not cause.waived and cause.severity is not Severity.NOTE:
            found[cause.rule, cause.fix].extend(cause.findings)
    by_rule: dict[tuple[Severity, str], list[Action]] = defaultdict(list)
    for (rule, fix), findings in found.items():
        severity = min((finding.severity for finding in findings), key=WEIGHT.__getitem__)
        by_rule[severity, rule].append(Action(fix, rule, severity, _once(findings), 0))
    made: list[Action] = []
    for same in by_rule.values():
        folded = len(same) > SIMILAR and not every
        made += [replace(same[0], similar=len(same) - 1)] if folded else same
    return tuple(sorted(made, key=lambda action: WEIGHT[action.severity]))


def _once(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.subject for finding in findings))


def coverage_state(report: TargetReport, item: LibraryCoverage, target: TargetCoverage) -> str:
    """What a cell of the coverage table says beside its numbers.

    ``ok``: the target has machine code. ``bad``: it has not, and a finding says so. ``waived``: such a finding is
    waived. ``declared``: it has not, and the rule has nothing against it. ``open``: the rule did not run.
    """
    if item.result(target) == "sass":
        return "ok"
    waived = False
    for finding in report.findings:
        if finding.rule == arch_coverage.ID and finding.subject == item.file:
            if finding.evidence.get("target", target.target) != target.target:
                continue
            if not finding.waiver:
                return "bad"
            waived = True
    if waived:
        return "waived"
    return "declared" if arch_coverage.ID in report.rules else "open"


def tally(report: TargetReport) -> dict[str, int]:
    """Findings by mark (``error``, ``warning``, ``note``: not waived; ``waived``), and the declared exceptions."""
    found = {severity.value: 0 for severity in Severity} | {"waived": 0}
    for finding in report.findings:
        found["waived" if finding.waiver else finding.severity.value] += 1
    return found | {"declared": len(report.expected)}


def plural(count: int, noun: str) -> str:
    """``1 error``, ``2,345 errors``, ``3 libraries``."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


def visible(text: str) -> str:
    """``text`` with everything that would move the cursor, colour a terminal or reorder a line written as an escape.

    File names come from anywhere; one with an escape sequence in it must not be able to rewrite a report.
    """
    if text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character == " " or unicodedata.category(character)[0] not in "CZ":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
