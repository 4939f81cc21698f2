"""Checks and findings as symptoms: the closest name wins, what has none is not lost."""

from __future__ import annotations

import pytest

from orbit.core.findings import Finding, Severity
from orbit.doctor.catalog import Certainty, load_catalog
from orbit.doctor.facts import Facts
from orbit.doctor.sight import sightings_of, unnamed
from orbit.launch.preflight.model import Check, State

CATALOG = load_catalog()


def check(name: str, state: State = State.FAILED, **found: str) -> Check:
    return Check(name=name, state=state, message="message", fix="fix of the check", found=found)


def finding(rule: str, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(rule=rule, severity=severity, subject="torch", message="broken", fix="fix of the rule")


@pytest.mark.parametrize(
    ("one", "symptom", "sure"),
    [
        (check("open-files"), "open-files-too-few", Certainty.CERTAIN),
        (check("shared-memory", State.WARNING), "shared-memory-too-small", Certainty.LIKELY),
        (check("scratch", error="EDQUOT"), "disk-quota", Certainty.CERTAIN),
        (check("scratch", error="ENOSPC"), "disk-full", Certainty.CERTAIN),
        (check("scratch", error="EACCES"), "home-not-writable", Certainty.CERTAIN),
        (check("caches", State.WARNING), "compile-cache-on-network", Certainty.LIKELY),
        (check("caches"), "home-not-writable", Certainty.CERTAIN),
        (check("socket-path"), "socket-path-too-long", Certainty.CERTAIN),
        (
            Check(
                name="driver",
                state=State.FAILED,
                message="there is no NVIDIA driver in this container",
                fix="fix of the check",
            ),
            "no-driver",
            Certainty.CERTAIN,
        ),
        (check("driver"), "driver-too-old", Certainty.CERTAIN),
        (check("never-heard-of"), "node-unfit", Certainty.CERTAIN),
    ],
)
def test_a_check_is_the_symptom_that_names_it_most_closely(one: Check, symptom: str, sure: Certainty) -> None:
    found = sightings_of(Facts(checks=(one,)), CATALOG)
    assert [(each.symptom, each.certainty, each.fix) for each in found] == [(symptom, sure, "fix of the check")]


def test_passed_and_skipped_checks_are_nothing() -> None:
    checks = tuple(check("open-files", state) for state in (State.PASSED, State.SKIPPED))
    assert sightings_of(Facts(checks=checks), CATALOG) == ()


def test_a_finding_is_each_symptom_of_its_rule() -> None:
    found = sightings_of(Facts(findings=(finding("dangling-link"), finding("arch-coverage"))), CATALOG)
    assert [(each.symptom, each.certainty) for each in found] == [
        ("dangling-links", Certainty.CERTAIN),
        ("no-device-code", Certainty.LIKELY),
        ("ptx-only", Certainty.LIKELY),
    ]
    assert found[0].message == "torch: broken"
    (warned,) = sightings_of(Facts(findings=(finding("dangling-link", Severity.WARNING),)), CATALOG)
    assert warned.certainty is Certainty.POSSIBLE


def test_notes_and_unknown_rules_are_counted_apart() -> None:
    findings = (finding("shipped-secret"), finding("dangling-link"), finding("shipped-secret", Severity.NOTE))
    assert unnamed(findings, CATALOG) == 1
    assert [each.symptom for each in sightings_of(Facts(findings=findings), CATALOG)] == ["dangling-links"]
