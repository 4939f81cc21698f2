"""Running rules: in their order, waived by what covers them, and nothing said about rules that did not run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.audit.evaluate import evaluate, waive
from orbit.audit.facts import Environment
from orbit.audit.known.policy import Expectations, Policy, Waiver
from orbit.audit.rules import ALL_KINDS, RULES, Rule
from orbit.core.findings import Finding, Severity
from tests.audit.support import TODAY, make_policy, read
from tests.writers.environment import write_sound_environment


def finding(rule: str, subject: str) -> Finding:
    return Finding(rule=rule, severity=Severity.ERROR, subject=subject, message="m", fix="f")


def rule(name: str, *subjects: str) -> Rule:
    def check(_env: Environment, _policy: Policy) -> Iterator[Finding]:
        for subject in subjects:
            yield finding(name, subject)

    return Rule(name, "t", ALL_KINDS, check)


def waiver(name: str, subject: str, days: int = 1) -> Waiver:
    return Waiver(
        rule=name, subject=subject, reason="it is known and harmless here", expires=TODAY + dt.timedelta(days)
    )


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    return read(write_sound_environment(tmp_path / "e").prefix)


def policy(*waivers: Waiver) -> Policy:
    return make_policy(Expectations(schema=1, waivers=waivers))


def test_findings_come_in_the_order_of_the_rules(env: Environment) -> None:
    found = evaluate(env, policy(), [rule("b", "2", "1"), rule("a", "3")])
    assert [(item.rule, item.subject) for item in found] == [("b", "2"), ("b", "1"), ("a", "3")]


def test_a_waiver_covers_its_rule_and_subjects_until_its_last_day(env: Environment) -> None:
    waivers = (waiver("a", "x*", 0), waiver("a", "y", -1))
    found = evaluate(env, policy(*waivers), [rule("a", "xx", "y", "z"), rule("b", "xx")])
    assert [bool(item.waiver) for item in found] == [True, False, False, False]
    assert str(TODAY) in found[0].waiver


def test_waivers_of_rules_that_did_not_run_are_not_stale(env: Environment) -> None:
    waivers = (waiver("a", "x"), waiver("b", "x"))
    found = evaluate(env, policy(*waivers), [rule("a", "other"), RULES["expectation"]])
    stale = [item.subject for item in found if item.rule == "expectation"]
    assert [subject for subject in stale if "waiver a" in subject or "waiver b" in subject] == []
    alone = evaluate(env, policy(*waivers), [rule("a", "x")])
    assert [item.rule for item in alone] == ["a"]


def test_what_is_shown_can_be_printed() -> None:
    used: set[int] = set()
    odd = Finding(rule="a", severity=Severity.NOTE, subject="x\udcff", message="\udc80", evidence={"k": "\udc81"})
    shown = waive(odd, policy(), used, "environment")
    assert (shown.subject, shown.message, shown.evidence) == ("x\\udcff", "\\udc80", {"k": "\\udc81"})
    assert used == set()
