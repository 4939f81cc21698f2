"""JUnit XML: what CI servers show. A test suite for each target, a test case for each rule (:mod:`orbit.core.junit`).

A rule's own time is not measured, so only suites state a time.
"""

from __future__ import annotations

from collections import defaultdict

from orbit.audit.reports.explain import title_of
from orbit.audit.reports.report import AuditReport, TargetReport
from orbit.core.findings import Finding
from orbit.core.junit import Case, Failure, Suite, to_xml


def to_junit(report: AuditReport) -> bytes:
    """The XML document, UTF-8."""
    suites = [_suite(item) for item in report.reports]
    for unread in report.unread:
        error = Failure(kind="unread", message=unread.reason)
        suites.append(Suite(name=unread.what, cases=(Case(group="orbit.audit", name="target", error=error),)))
    return to_xml("orbit audit", suites)


def _suite(report: TargetReport) -> Suite:
    found: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        found[finding.rule].append(finding)
    group = f"orbit.audit.{report.kind}"
    rules = dict.fromkeys((*report.rules, *found))
    cases = [_case(group, rule, found[rule]) for rule in rules]
    for item in report.skipped:
        if item.what not in rules:
            reason = f"{item.reason} ({item.estimate})" if item.estimate else item.reason
            cases.append(Case(group=group, name=item.what, skipped=reason))
    return Suite(
        name=report.target,
        cases=tuple(cases),
        seconds=report.seconds,
        properties={"kind": report.kind, "profile": report.profile, "uid": str(report.uid)},
    )


def _case(group: str, rule: str, findings: list[Finding]) -> Case:
    """The test case of a rule. What is not fatal is output, not failure."""
    fatal = [finding for finding in findings if finding.fatal]
    failures = tuple(
        Failure(kind=rule, message=f"{finding.subject}: {finding.message}", text=_text(finding)) for finding in fatal
    )
    rest = [_text(finding) for finding in findings if not finding.fatal]
    if not rest and not fatal:
        rest = [title_of(rule) or "nothing found"]
    return Case(group=group, name=rule, failures=failures, output="\n".join(rest))


def _text(finding: Finding) -> str:
    mark = "waived" if finding.waiver else finding.severity.value
    lines = [f"{mark}: {finding.subject}: {finding.message}"]
    lines += [f"  {key}: {value}" for key, value in finding.evidence.items() if value]
    lines += [f"  fix: {finding.fix}"] if finding.fix else []
    lines += [f"  waiver: {finding.waiver}"] if finding.waiver else []
    lines.append(f"  more: orbit audit explain {finding.rule}")
    return "\n".join(lines)
