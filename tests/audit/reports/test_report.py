"""What an audit says: counts for a stage's evidence, names of findings, the JSON and its published schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from orbit.audit.reports.report import (
    SCHEMA,
    AuditReport,
    LibraryCoverage,
    TargetCoverage,
    TargetReport,
    identities,
    json_schema,
    load_reports,
)
from orbit.audit.run import audit_environment
from orbit.core.findings import Finding, Severity
from orbit.core.paths import data_root
from orbit.core.records import canonical, dump_json
from orbit.errors import InputError
from orbit.profile.model import load_profile
from tests.audit.written_reports import COVERAGE, FACTS, call, finding, full_report, hostile_report, report
from tests.writers.environment import write_sound_environment


@pytest.mark.parametrize(
    ("findings", "failed"),
    [
        ((), False),
        ((finding(),), True),
        ((finding(Severity.WARNING), finding(Severity.NOTE)), False),
        ((finding(waiver="known"),), False),
        ((finding(waiver="known"), finding()), True),
    ],
)
def test_only_errors_that_are_not_waived_fail(findings: tuple[Finding, ...], failed: bool) -> None:
    made = report(findings=findings)
    assert made.failed is failed
    assert call(report(), made).failed is failed
    counts = made.counts()
    assert (counts["findings"], counts["fatal"] > 0) == (len(findings), failed)
    assert counts["waived"] == sum(bool(item.waiver) for item in findings)
    assert {key: counts[key] for key in FACTS} == FACTS


@pytest.mark.parametrize(
    ("mode", "numbers", "result"),
    [
        ("registering", (4, 0, 0), "sass"),
        ("registering", (3, 1, 0), "ptx-jit"),
        ("registering", (2, 1, 1), "none"),
        ("dispatching", (1, 2, 3), "sass"),
        ("dispatching", (0, 2, 3), "ptx-jit"),
        ("dispatching", (0, 0, 3), "none"),
    ],
)
def test_what_a_file_gives_a_target(mode: str, numbers: tuple[int, int, int], result: str) -> None:
    target = TargetCoverage(target="h100", sass=numbers[0], ptx_jit=numbers[1], none=numbers[2])
    item = msgspec.structs.replace(COVERAGE, mode=mode, targets=(target,))
    assert isinstance(item, LibraryCoverage)
    assert item.result(target) == result


def test_the_name_of_a_finding_stays_when_only_its_counts_change() -> None:
    (before,) = identities((finding(message="2 of 14 containers have nothing for b200"),))
    (after,) = identities((finding(message="3 of 15 containers have nothing for b200", fix="other"),))
    assert before == after
    others = (
        finding(message="2 of 14 containers have nothing for h100"),
        finding(message="2 of 14 containers have nothing for b200", subject="ext/_d.so"),
        finding(message="2 of 14 containers have nothing for b200", rule="other"),
        finding(message="needs 2.1 of 14 containers have nothing for b200"),
    )
    assert before not in identities(others)
    assert len(set(identities(others))) == len(others)


def test_equal_findings_have_names_of_their_own() -> None:
    assert len(set(identities((finding(), finding(), finding())))) == 3


@pytest.mark.parametrize("made", [report(), full_report(), hostile_report()])
def test_every_report_keeps_the_published_schema_and_survives_its_json(made: TargetReport) -> None:
    data = canonical(call(made, made))
    check_valid(json.loads(data))
    assert msgspec.json.decode(data, type=AuditReport) == call(made, made)


def test_report_of_a_real_environment_keeps_the_published_schema(tmp_path: Path) -> None:
    env = write_sound_environment(tmp_path / "e")
    made = audit_environment(env.prefix, load_profile("probe"))
    check_valid(json.loads(canonical(call(made))))


def check_valid(document: Any) -> None:
    schema = json.loads((data_root() / "docs/schemas/audit.json").read_bytes())
    assert jsonschema.Draft202012Validator.check_schema(schema) is None
    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)] == []


def test_the_schema_refuses_what_is_no_report() -> None:
    document = json.loads(canonical(call(full_report())))
    document["reports"][0]["uid"] = "nobody"
    document["reports"][0]["more"] = 1
    schema = json.loads((data_root() / "docs/schemas/audit.json").read_bytes())
    messages = " ".join(error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document))
    assert "'nobody' is not of type 'integer'" in messages
    assert "'more' was unexpected" in messages


def test_published_schema_is_current() -> None:
    published = data_root() / "docs" / "schemas" / "audit.json"
    assert published.read_bytes() == json_schema(), "orbit audit --schema > docs/schemas/audit.json"


def test_schema_is_closed_and_names_every_key() -> None:
    definitions = json.loads(json_schema())["$defs"]
    made = json.loads(canonical(call(full_report())))
    assert made["schema"] == SCHEMA == "orbit.audit/2"
    one = made["reports"][0]
    for name, value in (
        ("AuditReport", made),
        ("TargetReport", one),
        ("LibraryCoverage", one["coverage"][0]),
        ("TargetCoverage", one["coverage"][0]["targets"][0]),
        ("Finding", one["findings"][0]),
        ("LoaderRow", one["loader"][0]),
        ("DepthLibrary", one["depth"][0]),
    ):
        assert set(value) == set(definitions[name]["properties"]), name
        assert definitions[name]["additionalProperties"] is False


def test_saved_reports_are_read_in_both_forms(tmp_path: Path) -> None:
    one, two = full_report(), report(target="other")
    dump_json(tmp_path / "call.json", call(one, two))
    dump_json(tmp_path / "target.json", one)
    assert load_reports(tmp_path / "call.json") == (one, two)
    assert load_reports(tmp_path / "target.json") == (one,)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not an audit report"),
        (b"[1]", "not an audit report"),
        (b'{"a": 1}', "not an audit report"),
        (b'{"schema": "orbit.audit/1", "target": "x"}', "schema 'orbit.audit/1'"),
        (b'{"schema": {}, "reports": []}', "schema {}"),
        (b'{"schema": "orbit.audit/2", "orbit": "1", "reports": [{}]}', "not an audit report"),
        (b"\xff\xfe", "not an audit report"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_reports(path)
    assert says in caught.value.what
    assert caught.value.fix


def test_a_report_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load_reports(tmp_path / "none.json")
