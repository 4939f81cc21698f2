"""JUnit XML: what CI servers show. A test suite for each target, a test case for each rule.

The dialect is the one Jenkins, GitLab and GitHub's reporters share: ``testsuites/testsuite/testcase`` with any number
of ``failure``, one ``skipped`` and ``system-out``. A rule's own time is not measured, so only suites state a time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from xml.etree import ElementTree as ET

from orbit.audit.reports.report import AuditReport, TargetReport
from orbit.audit.rules import TITLES
from orbit.core.findings import Finding

FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\x7e\\x85\\xa0-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""What XML 1.0 does not allow (section 2.2) or discourages: controls, surrogates, non-characters."""


def to_junit(report: AuditReport) -> bytes:
    """The XML document, UTF-8."""
    root = ET.Element("testsuites", name="orbit audit")
    for item in report.reports:
        root.append(_suite(item))
    for unread in report.unread:
        suite = ET.SubElement(
            root, "testsuite", name=clean(unread.what), tests="1", failures="0", errors="1", skipped="0"
        )
        case = ET.SubElement(suite, "testcase", classname="orbit.audit", name="target")
        ET.SubElement(case, "error", type="unread", message=clean(unread.reason)).text = clean(unread.reason)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", f"{sum(item.seconds for item in report.reports):.3f}")
    ET.indent(root)
    body: bytes = ET.tostring(root, encoding="UTF-8", xml_declaration=False)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + body + b"\n"


def _suite(report: TargetReport) -> ET.Element:
    found: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        found[finding.rule].append(finding)
    suite = ET.Element("testsuite", name=clean(report.target), time=f"{report.seconds:.3f}")
    properties = ET.SubElement(suite, "properties")
    for name, value in (("kind", report.kind), ("profile", report.profile), ("uid", str(report.uid))):
        ET.SubElement(properties, "property", name=name, value=clean(value))
    failed = 0
    rules = dict.fromkeys((*report.rules, *found))
    for rule in rules:
        failed += _case(suite, report, rule, found[rule])
    skipped = [item for item in report.skipped if item.what not in rules]
    for item in skipped:
        reason = f"{item.reason} ({item.estimate})" if item.estimate else item.reason
        ET.SubElement(_testcase(suite, report, item.what), "skipped", message=clean(reason))
    counts = {"tests": len(rules) + len(skipped), "failures": failed, "errors": 0, "skipped": len(skipped)}
    for name, count in counts.items():
        suite.set(name, str(count))
    return suite


def _testcase(suite: ET.Element, report: TargetReport, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=clean(f"orbit.audit.{report.kind}"), name=clean(name))


def _case(suite: ET.Element, report: TargetReport, rule: str, findings: list[Finding]) -> bool:
    """Append the test case of a rule; whether it failed. What is not fatal is output, not failure."""
    case = _testcase(suite, report, rule)
    fatal = [finding for finding in findings if finding.fatal]
    for finding in fatal:
        failure = ET.SubElement(
            case, "failure", type=clean(rule), message=clean(f"{finding.subject}: {finding.message}")
        )
        failure.text = clean(_text(finding))
    rest = [finding for finding in findings if not finding.fatal]
    if rest or not fatal:
        lines = [_text(finding) for finding in rest] or [TITLES.get(rule, "nothing found")]
        ET.SubElement(case, "system-out").text = clean("\n".join(lines))
    return bool(fatal)


def _text(finding: Finding) -> str:
    mark = "waived" if finding.waiver else finding.severity.value
    lines = [f"{mark}: {finding.subject}: {finding.message}"]
    lines += [f"  {key}: {value}" for key, value in finding.evidence.items() if value]
    lines += [f"  fix: {finding.fix}"] if finding.fix else []
    lines += [f"  waiver: {finding.waiver}"] if finding.waiver else []
    lines.append(f"  more: orbit audit explain {finding.rule}")
    return "\n".join(lines)


def clean(text: str) -> str:
    """``text`` with every character that XML does not allow written as ``\\x1b`` or ``\\ud800``."""
    return FORBIDDEN.sub(lambda match: _escape(ord(match[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
