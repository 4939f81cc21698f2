"""SARIF: what a code scanning service reads, and that the official schema accepts it."""

from __future__ import annotations

import json
import os
import re
import urllib.parse
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from orbit.audit.reports.formats.sarif import FINGERPRINT, location, to_sarif
from orbit.audit.reports.report import AuditReport
from orbit.core.findings import Severity, Skipped
from tests.audit.written_reports import HOSTILE, call, finding, full_report, hostile_report, report

UNREAD = (Skipped(what="broken.whl", reason="not a zip file"),)
CALLS = (
    call(report()),
    call(full_report(), report(target="wheels", kind="wheels")),
    call(full_report(), unread=UNREAD),
    call(hostile_report()),
    call(unread=UNREAD),
)


def log(made: AuditReport) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_sarif(made))
    return found


def test_one_run_for_each_target() -> None:
    made = log(call(full_report(), report(target="wheels", kind="wheels"), unread=UNREAD))
    assert made["version"] == "2.1.0"
    assert "sarif-schema-2.1.0" in made["$schema"]
    assert [run["automationDetails"]["id"] for run in made["runs"]] == [
        "orbit-audit/environment/probe/%2Fopt%2Forbit/",
        "orbit-audit/wheels/probe/wheels/",
        "orbit-audit/unread/broken.whl/",
    ]
    assert [run["invocations"][0]["executionSuccessful"] for run in made["runs"]] == [True, True, False]
    (note,) = made["runs"][2]["invocations"][0]["toolExecutionNotifications"]
    assert (note["level"], note["message"]["text"]) == ("error", "broken.whl: not a zip file")


def test_rules_have_title_help_and_level() -> None:
    (run,) = log(call(full_report()))["runs"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert list(rules) == ["arch-coverage", "dangling-link", "unreadable", "needs-library"]
    levels = [rule["defaultConfiguration"]["level"] for rule in rules.values()]
    assert levels == ["error", "warning", "note", "warning"]  # the last found nothing: SARIF's default
    coverage = rules["arch-coverage"]
    assert coverage["shortDescription"]["text"] == "every piece of device code has machine code for every target"
    assert coverage["help"]["markdown"].startswith("# arch-coverage\n")
    assert coverage["help"]["text"].startswith("arch-coverage\n")
    assert "`" not in coverage["help"]["text"]


def test_a_result_says_what_where_and_what_to_do() -> None:
    (run,) = log(call(full_report()))["runs"]
    first, waived, link, note = run["results"]
    assert (first["ruleId"], first["ruleIndex"], first["level"]) == ("arch-coverage", 0, "error")
    assert first["message"]["text"] == (
        "ext/_c.so: 3 of 4 containers have nothing that b200 (B200) can load\n"
        "fix: build it for sm_100a as well\ntarget: b200\nresult: none"
    )
    assert first["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "ext/_c.so", "uriBaseId": "TARGET"}
    assert first["suppressions"] == []
    (suppression,) = waived["suppressions"]
    assert (suppression["status"], suppression["justification"]) == ("accepted", "known upstream (until 2027-01-01)")
    assert [item["level"] for item in (link, note)] == ["warning", "note"]
    assert note["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "./"
    assert note["locations"][0]["logicalLocations"] == [{"fullyQualifiedName": "two words + more"}]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


def test_skipped_work_is_a_notification() -> None:
    (run,) = log(call(full_report()))["runs"]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note == {"level": "note", "message": {"text": "not looked at: record-hash: not selected (2 s)"}}


def test_fingerprints_stay_when_counts_change_and_differ_otherwise() -> None:
    def keys(*messages: str) -> list[str]:
        findings = tuple(finding(message=message) for message in messages)
        return [
            r["partialFingerprints"][FINGERPRINT] for r in log(call(report(findings=findings)))["runs"][0]["results"]
        ]

    assert keys("1 of 3 containers for b200") == keys("2 of 9 containers for b200")
    assert len(set(keys("1 of 3 containers for b200", "1 of 3 containers for h100", "1 of 3 containers for b200"))) == 3


@pytest.mark.parametrize(
    ("subject", "uri"),
    [
        ("torch/lib/libtorch_cuda.so", "torch/lib/libtorch_cuda.so"),
        ("libcudart.so.12", "libcudart.so.12"),
        ("a+b/c d.so", "./"),
        ("flashinfer + torch", "./"),
        ("nvidia-cublas", "./"),
        ("caf\xe9/x.so", "caf%C3%A9/x.so"),
        ("http://evil/x", "http%3A//evil/x"),
        ("//evil/x.so", "./"),
        ("/etc/passwd", "./"),
        ("../../etc/passwd", "./"),
        ("a/../../b", "./"),
        ("x/100%.so", "x/100%25.so"),
        ("q/?#.so", "q/%3F%23.so"),
        ("bad/\udcff.so", "bad/%5Cudcff.so"),
        ("", "./"),
    ],
)
def test_location_of_a_subject(subject: str, uri: str) -> None:
    assert location(subject) == uri


def test_hostile_names_stay_relative_and_printable() -> None:
    (run,) = log(call(hostile_report()))["runs"]
    assert len(run["results"]) == len(HOSTILE)
    for result in run["results"]:
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        parsed = urllib.parse.urlsplit(uri)
        assert (parsed.scheme, parsed.netloc) == ("", "")
        assert re.fullmatch(r"[A-Za-z0-9/._~%-]+", uri)
        assert all(line.isprintable() for line in result["message"]["text"].split("\n"))


# --- structure, by the words of the standard --------------------------------------------------------------------------


@pytest.mark.parametrize("made", CALLS)
def test_structure_the_standard_asks_for(made: AuditReport) -> None:
    document = log(made)
    ids = [run["automationDetails"]["id"] for run in document["runs"]]
    assert len(ids) == len(set(ids))  # 3.17.2: what tells runs apart
    for run in document["runs"]:
        rules = run["tool"]["driver"]["rules"]
        assert len({rule["id"] for rule in rules}) == len(rules)  # 3.19.23: no two descriptors of one id
        for result in run["results"]:
            assert 0 <= result["ruleIndex"] < len(rules)  # 3.27.6
            assert result["level"] in {severity.value for severity in Severity}  # 3.27.10
            assert result["message"]["text"]  # 3.27.11
            base = result["locations"][0]["physicalLocation"]["artifactLocation"]["uriBaseId"]
            assert base in run["originalUriBaseIds"]  # 3.4.4
            assert isinstance(result["suppressions"], list)  # 3.27.23: all results have it, or none


SCHEMA = "ORBIT_TEST_SARIF_SCHEMA"


@pytest.mark.integration
@pytest.mark.parametrize("made", CALLS)
def test_official_schema_accepts_it(made: AuditReport) -> None:
    path = os.environ.get(SCHEMA, "")
    if not path:
        pytest.skip(f"{SCHEMA} does not name the file sarif-schema-2.1.0.json of the OASIS SARIF repository")
    schema = json.loads(Path(path).read_bytes())
    kind = jsonschema.validators.validator_for(schema)
    assert "2.1.0" in schema["title"] + schema.get("id", "") + schema.get("$id", "")
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    assert [f"{list(error.path)}: {error.message}" for error in validator.iter_errors(log(made))] == []
    broken = log(made)
    broken["runs"][0]["tool"] = {}
    assert list(validator.iter_errors(broken))


def test_waiver_reason_is_the_justification_only_of_its_own_result() -> None:
    findings = (finding(subject="a.so", waiver="one"), finding(subject="b.so"), finding(subject="c.so", waiver="two"))
    (run,) = log(call(report(findings=findings)))["runs"]
    assert [[s["justification"] for s in result["suppressions"]] for result in run["results"]] == [["one"], [], ["two"]]
    again = msgspec.json.decode(to_sarif(call(report(findings=findings))))
    assert again["runs"][0] == run
