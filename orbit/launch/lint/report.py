"""What the lint found, as a report of the audit: the same text, JSON, SARIF, JUnit and HTML."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from orbit.audit.evaluate import waive
from orbit.audit.facts import printable
from orbit.audit.known.policy import Policy
from orbit.audit.reports.report import TargetReport
from orbit.audit.run import without_collector
from orbit.core.findings import Finding, Skipped
from orbit.launch.lint.known import Known
from orbit.launch.lint.rules import RULES
from orbit.launch.lint.run import Linted, lint_files

KIND = "manifests"


def lint_target(target: str, policy: Policy, known: Known, rules: frozenset[str]) -> TargetReport:
    """Judge a manifest or a folder of them. Raises :class:`orbit.errors.InputError` when it is neither."""
    began = time.monotonic()
    path = Path(target)
    with without_collector():
        linted = lint_files((path,), known, rules=rules, base=path if path.is_dir() else None)
    return report_of(target, linted, policy, rules, seconds=time.monotonic() - began)


def report_of(
    target: str, linted: Linted, policy: Policy, rules: Iterable[str], *, seconds: float = 0.0
) -> TargetReport:
    """The report of what was judged, with the waivers of ``policy``."""
    used: set[int] = set()
    chosen = frozenset(rules)
    left_out = [Skipped(what=name, reason="not selected (--rule, --skip)") for name in RULES if name not in chosen]
    findings: list[Finding] = [waive(finding, policy, used, KIND) for finding in linted.findings]
    return TargetReport(
        target=printable(target),
        kind=KIND,
        profile=policy.profile.name,
        uid=policy.uid,
        findings=tuple(findings),
        expected=(),
        coverage=(),
        facts=linted.facts,
        driver_libraries={},
        seconds=round(seconds, 3),
        rules=tuple(name for name in RULES if name in chosen),
        skipped=(*left_out, *linted.skipped),
    )
