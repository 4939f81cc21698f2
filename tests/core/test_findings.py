"""Findings: only an unwaived error fails a command."""

from __future__ import annotations

import pytest

from orbit.core.findings import Finding, Severity, Skipped
from orbit.core.records import canonical, convert
from orbit.errors import InputError


@pytest.mark.parametrize(
    ("severity", "waiver", "fatal"),
    [("error", "", True), ("error", "known, until 2027-01-01", False), ("warning", "", False), ("note", "", False)],
)
def test_what_is_fatal(severity: str, waiver: str, fatal: bool) -> None:
    finding = Finding(rule="a-rule", severity=Severity(severity), subject="x", message="m", waiver=waiver)
    assert finding.fatal is fatal


def test_findings_survive_json() -> None:
    finding = Finding(rule="a-rule", severity=Severity.ERROR, subject="x", message="m", evidence={"n": "1"}, fix="f")
    assert b'"severity":"error"' in canonical(finding)
    data = {
        "rule": "a-rule",
        "severity": "error",
        "subject": "x",
        "message": "m",
        "evidence": {"n": "1"},
        "fix": "f",
    }
    assert convert(data, Finding, "test") == finding


def test_skipped_work_needs_a_reason() -> None:
    assert Skipped(what="flash-attn", reason="tier extended").estimate == ""
    with pytest.raises(InputError, match="reason"):
        convert({"what": "flash-attn"}, Skipped, "test")
