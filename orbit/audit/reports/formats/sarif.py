"""SARIF 2.1.0 (OASIS standard, with errata 01): what code scanning services and editors read.

One run for each target. A finding is a result; its fingerprint is its identity without counts, so a service follows it
from one build to the next. A waived finding is a suppressed result with the reason. What was not looked at is a
notification of the run, never silence.
"""

from __future__ import annotations

import re
from urllib.parse import quote

import msgspec

from orbit.audit.reports.explain import rule_page, sections, title_of
from orbit.audit.reports.report import LINE, AuditReport, TargetReport, identities
from orbit.audit.reports.view import WEIGHT, visible
from orbit.core.findings import Finding, Severity, Skipped

SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "orbitFinding/v1"
BASE = "TARGET"
"""Name of the folder that locations are relative to."""

type Json = dict[str, object]


def to_sarif(report: AuditReport) -> bytes:
    """The log file, indented. Targets that could not be read at all are runs that did not succeed."""
    runs = [_run(item, report.orbit) for item in report.reports]
    runs += [_unread(item, report.orbit) for item in report.unread]
    log = {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": runs}
    return msgspec.json.format(msgspec.json.encode(log), indent=1) + b"\n"


def _run(report: TargetReport, version: str) -> Json:
    names = dict.fromkeys((*report.rules, *(finding.rule for finding in report.findings)))
    index = {name: position for position, name in enumerate(names)}
    keys = identities(report.findings)
    return {
        "tool": _tool(version, [_rule(name, report.findings) for name in names]),
        "automationDetails": {
            "id": f"orbit-audit/{report.kind}/{quote(report.profile, safe='')}/{quote(_utf8(report.target), safe='')}/",
            "description": {"text": f"audit of {visible(report.target)} for profile {visible(report.profile)}"},
        },
        "originalUriBaseIds": {
            BASE: {"description": {"text": "the audited target; its site-packages for what lies there"}}
        },
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [_notification(item, index) for item in report.skipped],
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, key, index) for finding, key in zip(report.findings, keys, strict=True)],
        "properties": {
            "target": visible(report.target),
            "kind": report.kind,
            "profile": report.profile,
            "uid": report.uid,
            "seconds": report.seconds,
            "facts": report.facts,
            "declaredExceptions": len(report.expected),
        },
    }


def _unread(item: Skipped, version: str) -> Json:
    return {
        "tool": _tool(version, []),
        "automationDetails": {"id": f"orbit-audit/unread/{quote(_utf8(item.what), safe='')}/"},
        "invocations": [
            {
                "executionSuccessful": False,
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": visible(f"{item.what}: {item.reason}")}}
                ],
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [],
    }


def _tool(version: str, rules: list[Json]) -> Json:
    return {"driver": {"name": "orbit audit", "version": version, "rules": rules}}


def _rule(name: str, findings: tuple[Finding, ...]) -> Json:
    """The descriptor of a rule, with its page as help.

    A rule has no level of its own (a finding's depends on what is wrong): stated is the highest of this run, else
    SARIF's default.
    """
    severities = [finding.severity for finding in findings if finding.rule == name]
    level = min(severities, key=WEIGHT.__getitem__) if severities else Severity.WARNING
    title = title_of(name)
    page = rule_page(name)
    made: Json = {
        "id": visible(name),
        "shortDescription": {"text": title or visible(name)},
        "defaultConfiguration": {"level": level.value},
    }
    if page:
        parts = sections(page)
        why = parts.get("Why") or parts[""]
        if why:
            made["fullDescription"] = {"text": _plain(why)}
        made["help"] = {"text": _plain(page), "markdown": page}
    return made


def _plain(markdown: str) -> str:
    return re.sub(r"[`*]", "", re.sub(r"^#+ ", "", markdown, flags=re.MULTILINE)).strip()


def _result(finding: Finding, key: str, index: dict[str, int]) -> Json:
    evidence = [f"{name}: {value}" for name, value in finding.evidence.items() if value]
    text = f"{finding.subject}: {finding.message}" + (f"\nfix: {finding.fix}" if finding.fix else "")
    file, line = place(finding.subject)
    physical: Json = {"artifactLocation": {"uri": location(file), "uriBaseId": BASE}}
    if line:
        physical["region"] = {"startLine": line}
    return {
        "ruleId": visible(finding.rule),
        "ruleIndex": index[finding.rule],
        "level": finding.severity.value,
        "kind": "fail",
        "message": {"text": "\n".join(visible(line) for line in "\n".join((text, *evidence)).split("\n"))},
        "locations": [
            {
                "physicalLocation": physical,
                "logicalLocations": [{"fullyQualifiedName": visible(finding.subject)}],
            }
        ],
        "partialFingerprints": {FINGERPRINT: key, "primaryLocationLineHash": key},
        "suppressions": [_suppression(finding.waiver)] if finding.waiver else [],
    }


def _suppression(waiver: str) -> Json:
    return {"kind": "external", "status": "accepted", "justification": visible(waiver)}


def _notification(item: Skipped, index: dict[str, int]) -> Json:
    cost = f" ({item.estimate})" if item.estimate else ""
    made: Json = {"level": "note", "message": {"text": visible(f"not looked at: {item.what}: {item.reason}{cost}")}}
    if item.what in index:
        made["associatedRule"] = {"id": visible(item.what), "index": index[item.what]}
    return made


def place(subject: str) -> tuple[str, int]:
    """The file and the line of a subject ``file:line ...``; the subject as it is, and 0, for every other."""
    match = LINE.match(subject)
    return (match[1], int(match[2])) if match else (subject, 0)


def location(subject: str) -> str:
    """A finding's subject as a relative URI reference; the target itself (``./``) when it is not a path.

    A path is one word with a slash or a suffix in it that does not lead out of the target. Every byte that is not
    plain is percent-encoded, and nothing can become a scheme or a host.
    """
    parts = subject.split("/")
    one_word = not re.search(r"\s", subject) and not subject.startswith("/") and ".." not in parts
    if not one_word or not ("/" in subject or re.search(r"[^.]\.[A-Za-z0-9]+$", subject)):
        return "./"
    return quote(_utf8(subject), safe="/")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
