"""What people are shown: causes, what to do, the state of a cell, names that cannot play tricks."""

from __future__ import annotations

import msgspec
import pytest

from orbit.audit.reports.view import actions, causes, coverage_state, plural, tally, visible
from orbit.audit.rules import RULES, TITLES
from orbit.core.amounts import format_bytes
from orbit.core.findings import Finding, Severity
from tests.audit.written_reports import COVERAGE, HOSTILE, finding, full_report, report


def test_one_cause_is_one_rule_one_reason_and_one_fix() -> None:
    findings = (
        finding(subject="a", message="1 of 4 containers have nothing"),
        finding(Severity.NOTE, rule="unreadable", subject="n"),
        finding(subject="b", message="2 of 9 containers have nothing"),
        finding(subject="c", message="2 of 9 containers have PTX"),
        finding(subject="d", message="1 of 4 containers have nothing", fix="other"),
        finding(Severity.WARNING, rule="unreadable", subject="w"),
    )
    found = causes(report(findings=findings))
    assert [(c.mark, c.rule, "".join(f.subject for f in c.findings)) for c in found] == [
        ("error", "arch-coverage", "ab"),
        ("error", "arch-coverage", "c"),
        ("error", "arch-coverage", "d"),
        ("warning", "unreadable", "w"),
        ("note", "unreadable", "n"),
    ]
    assert [cause.message for cause in found[:2]] == ["", "2 of 9 containers have PTX"]


def test_waived_findings_come_last_and_ask_for_nothing() -> None:
    findings = (finding(waiver="known", fix="a"), finding(waiver="known", fix="b"), finding(Severity.NOTE, fix=""))
    found = causes(report(findings=findings))
    assert [(cause.mark, len(cause.findings)) for cause in found] == [("note", 1), ("waived", 2)]
    assert actions(report(findings=findings)) == ()


def test_actions_put_errors_first_and_name_each_subject_once() -> None:
    findings = (
        finding(Severity.NOTE, rule="wheel-tag", fix="never asked for", subject="n"),
        finding(Severity.WARNING, rule="unreadable", fix="chmod", subject="w"),
        finding(subject="a", message="one"),
        finding(subject="a", message="two"),
        finding(subject="b", message="one"),
    )
    found = actions(report(findings=findings))
    assert [(action.fix, action.rule, action.severity) for action in found] == [
        ("build it", "arch-coverage", Severity.ERROR),
        ("chmod", "unreadable", Severity.WARNING),
    ]
    assert found[0].subjects == ("a", "b")


def test_many_fixes_of_one_rule_are_one_thing_to_do() -> None:
    findings = tuple(finding(subject=f"s{i}", fix=f"lock {i}") for i in range(9))
    (action,) = actions(report(findings=findings))
    assert (action.fix, action.similar) == ("lock 0", 8)
    assert action.about == "s0; 8 more fixes like this one stand with the findings"
    every = actions(report(findings=findings), every=True)
    assert [(item.fix, item.similar) for item in every] == [(f"lock {i}", 0) for i in range(9)]
    assert len(actions(report(findings=findings[:2]))) == 2


B200 = {"target": "b200"}


@pytest.mark.parametrize(
    ("findings", "rules", "state"),
    [
        ((finding(evidence=B200),), ("arch-coverage",), "bad"),
        ((finding(),), ("arch-coverage",), "bad"),
        ((finding(evidence=B200, waiver="x"),), ("arch-coverage",), "waived"),
        ((finding(evidence=B200, waiver="x"), finding(evidence=B200)), ("arch-coverage",), "bad"),
        ((finding(evidence={"target": "h100"}),), ("arch-coverage",), "declared"),
        ((finding(evidence=B200, subject="other.so"),), ("arch-coverage",), "declared"),
        ((finding(evidence=B200, rule="kernel-stub"),), ("arch-coverage",), "declared"),
        ((), ("unreadable",), "open"),
    ],
)
def test_state_of_a_cell_with_a_gap(findings: tuple[Finding, ...], rules: tuple[str, ...], state: str) -> None:
    made = report(findings=findings, rules=rules, coverage=(COVERAGE,))
    h100, b200 = COVERAGE.targets
    assert coverage_state(made, COVERAGE, b200) == state
    assert coverage_state(made, COVERAGE, h100) == "ok"
    dispatching = msgspec.structs.replace(COVERAGE, mode="dispatching")
    assert coverage_state(made, dispatching, b200) == "ok"


def test_tally_counts_what_is_waived_apart() -> None:
    assert tally(full_report()) == {"error": 1, "warning": 1, "note": 1, "waived": 1, "declared": 1}


def test_every_rule_has_a_title() -> None:
    assert set(RULES) <= set(TITLES)
    assert all(TITLES.values())


def test_hostile_names_become_printable_and_plain_ones_stay() -> None:
    for name in HOSTILE:
        assert visible(name).isprintable(), name
    assert visible("a\nb\x1b[0m\u202e\U000e0001") == "a\\x0ab\\x1b[0m\\u202e\\U000e0001"
    for name in ("nvidia/cu13/lib/libx.so.13", "caf\xe9 \u6f22", "a b\\udcff"):
        assert visible(name) == name


def test_numbers_for_people() -> None:
    assert [plural(1, "error"), plural(0, "error"), plural(2345, "library")] == [
        "1 error",
        "0 errors",
        "2,345 libraries",
    ]
    assert [format_bytes(n) for n in (0, 999, 1000, 3_400_000, 9_763_030_299)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "3.4 MB",
        "9.76 GB",
    ]
