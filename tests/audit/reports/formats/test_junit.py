"""JUnit XML: what a CI server counts, and that no name can break the document."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from orbit.audit.reports.formats.junit import to_junit
from orbit.audit.reports.report import AuditReport
from orbit.core.findings import Skipped
from orbit.core.junit import clean
from tests.audit.written_reports import HOSTILE, call, finding, full_report, hostile_report, report
from tests.writers.junit import check_junit


def parse(made: AuditReport) -> ET.Element:
    return check_junit(to_junit(made))


def cases(suite: ET.Element) -> dict[str, list[str]]:
    return {case.get("name", ""): [child.tag for child in case] for case in suite.iter("testcase")}


def test_a_suite_for_each_target_and_a_case_for_each_rule() -> None:
    root = parse(call(full_report(), report(target="wheels", kind="wheels")))
    assert [suite.get("name") for suite in root] == ["/opt/orbit", "wheels"]
    assert cases(root[0]) == {
        "arch-coverage": ["failure", "system-out"],
        "dangling-link": ["system-out"],
        "unreadable": ["system-out"],
        "needs-library": ["system-out"],
        "record-hash": ["skipped"],
    }
    counts = {name: root[0].get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
    assert counts == {"tests": "5", "failures": "1", "errors": "0", "skipped": "1", "time": "1.500"}
    total = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
    assert total == {"tests": "7", "failures": "1", "errors": "0", "skipped": "1", "time": "3.000"}
    values = {item.get("name"): item.get("value") for item in root[0].iter("property")}
    assert values == {"kind": "environment", "profile": "probe", "uid": "65534"}


def test_only_what_is_fatal_is_a_failure() -> None:
    (suite,) = parse(call(full_report()))
    case = next(case for case in suite.iter("testcase") if case.get("name") == "arch-coverage")
    (failure,) = case.findall("failure")
    assert failure.get("message") == "ext/_c.so: 3 of 4 containers have nothing that b200 (B200) can load"
    assert (failure.text or "").splitlines() == [
        "error: ext/_c.so: 3 of 4 containers have nothing that b200 (B200) can load",
        "  target: b200",
        "  result: none",
        "  fix: build it for sm_100a as well",
        "  more: orbit audit explain arch-coverage",
    ]
    assert "waiver: known upstream" in (case.findtext("system-out") or "")


def test_every_fatal_finding_is_a_failure_of_its_own() -> None:
    (suite,) = parse(call(report(findings=(finding(subject="a"), finding(subject="b")))))
    case = next(case for case in suite.iter("testcase") if case.get("name") == "arch-coverage")
    assert [(item.get("message") or "")[:2] for item in case.findall("failure")] == ["a:", "b:"]
    assert suite.get("failures") == "1"


def test_skipped_work_and_unread_targets_are_told() -> None:
    root = parse(call(full_report(), unread=(Skipped(what="broken.whl", reason="not a zip file"),)))
    skipped = next(root.iter("skipped"))
    assert skipped.get("message") == "not selected (2 s)"
    assert (root.get("errors"), root[1].get("name"), root[1].get("errors")) == ("1", "broken.whl", "1")
    error = next(root[1].iter("error"))
    assert error.get("message") == "not a zip file"


def test_hostile_names_leave_the_document_whole() -> None:
    (suite,) = parse(call(hostile_report()))
    names = [case.get("name") for case in suite.iter("testcase")]
    assert len(names) == len(HOSTILE) * 1 + 1  # each is a rule that ran, and what was skipped has the same names
    assert suite.get("name") == HOSTILE[0]
    failures = {item.get("type") for item in suite.iter("failure")}
    assert failures == {clean(name) for i, name in enumerate(HOSTILE) if not i % 3}
