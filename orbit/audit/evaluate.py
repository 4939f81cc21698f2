"""Run rules over facts and apply the waivers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from orbit.audit.facts import Environment, printable
from orbit.audit.known.policy import Policy
from orbit.audit.rules import Rule, expectation
from orbit.core.findings import Finding


def evaluate(env: Environment, policy: Policy, rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """Findings of ``rules``, with waivers applied, in the order of the rules.

    Waivers of rules that did not run are not judged: nothing is known about them.
    """
    found: list[Finding] = []
    used: set[int] = set()
    judged = set()
    for rule in rules:
        judged.add(rule.id)
        found.extend(waive(finding, policy, used, env.kind) for finding in rule.check(env, policy))
    if expectation.ID in judged:
        found.extend(expectation.check_waivers(env, policy, frozenset(used), frozenset(judged)))
    return tuple(found)


def waive(finding: Finding, policy: Policy, used: set[int], kind: str) -> Finding:
    """``finding`` in printable text, waived when a waiver covers it in a target of ``kind``; that waiver's position
    goes into ``used``."""
    finding = _printable(finding)
    for position, waiver in enumerate(policy.expectations.waivers):
        if waiver.covers(finding.rule, finding.subject, kind) and waiver.expires >= policy.today:
            used.add(position)
            return msgspec.structs.replace(finding, waiver=f"{waiver.reason} (until {waiver.expires})")
    return finding


def _printable(finding: Finding) -> Finding:
    return msgspec.structs.replace(
        finding,
        subject=printable(finding.subject),
        message=printable(finding.message),
        evidence={key: printable(value) for key, value in finding.evidence.items()},
        fix=printable(finding.fix),
    )
