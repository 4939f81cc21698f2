"""What an audit says: every number and word of the text, the counts for a stage's evidence, the JSON and its schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orbit.audit.policy import Dispatching, Expectations
from orbit.audit.report import (
    SCHEMA,
    AuditReport,
    Expected,
    LibraryCoverage,
    TargetCoverage,
    json_schema,
    render_text,
)
from orbit.audit.run import audit_environment
from orbit.core.findings import Finding, Severity
from orbit.core.paths import data_root
from orbit.core.records import canonical
from orbit.profile.model import load_profile
from tests.audit.support import make_policy
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter, write_sound_environment
from tests.writers.fatbin import Entry, write_container, write_section

FACTS = {
    "files": 12, "bytes": 3000, "links": 1, "distributions": 3, "shared_objects": 2, "files_with_device_code": 1,
    "containers": 4, "images": 9, "versioned_imports": 5, "verified_files": 10, "verified_bytes": 1_234_567_890,
    "remembered_digests": 0,
}  # fmt: skip
COVERAGE = LibraryCoverage(
    file="ext/_c.so",
    mode="registering",
    containers=4,
    images={"sm_90a": 9},
    payload_bytes=2_500_000,
    targets=(
        TargetCoverage(target="h100", sass=4, ptx_jit=0, none=0),
        TargetCoverage(target="b200", sass=1, ptx_jit=2, none=1),
    ),
)


def finding(severity: Severity = Severity.ERROR, **changes: Any) -> Finding:
    fields = {"rule": "arch-coverage", "subject": "ext/_c.so", "message": "it is wrong", "fix": "build it", **changes}
    return Finding(severity=severity, **fields)


def report(**changes: Any) -> AuditReport:
    fields: dict[str, Any] = {
        "schema": SCHEMA, "target": "/opt/orbit", "profile": "probe", "uid": 65534, "findings": (), "expected": (),
        "coverage": (), "facts": FACTS, "driver_libraries": {}, "seconds": 1.5, **changes,
    }  # fmt: skip
    return AuditReport(**fields)


def test_report_without_findings_and_without_device_code() -> None:
    assert render_text(report()).splitlines() == [
        "audit of /opt/orbit (profile probe, as uid 65534)",
        "",
        "no device code",
        "",
        (
            "12 files, 3 distributions, 2 shared objects; 4 containers of device code in 1 files; "
            "10 files (1.23 GB) compared with RECORD"
        ),
        "clean: 0 errors, 0 others, 0 waived, 0 declared exceptions; 1.50 s",
    ]


def test_coverage_table_has_a_column_for_each_target() -> None:
    other = msgspec.structs.replace(COVERAGE, file="vendor/lib/libx.so.13", mode="dispatching")
    lines = render_text(report(coverage=(COVERAGE, other))).splitlines()[2:7]
    assert lines[0].split() == ["device", "code", "mode", "containers", "MB", "h100", "b200"]
    assert lines[1].split() == ["sass/ptx/none", "sass/ptx/none"]
    assert lines[2].split() == ["ext/_c.so", "each", "4", "2.5", "4/0/0", "1/2/1"]
    assert lines[3].split() == ["vendor/lib/libx.so.13", "file", "4", "2.5", "4/0/0", "1/2/1"]
    assert len({len(line) for line in lines[:4]}) == 1  # the columns stand under each other
    assert lines[4].startswith("mode each: every container")


def test_findings_are_grouped_by_rule_with_each_fix_once() -> None:
    findings = (
        finding(evidence={"target": "b200", "empty": ""}),
        finding(Severity.WARNING, rule="unreadable", subject="x", fix=""),
        finding(subject="ext/_d.so"),
        finding(subject="ext/_e.so", waiver="known upstream (until 2027-01-01)", fix="never shown"),
        finding(Severity.NOTE, rule="unreadable", subject="y", fix="look"),
    )
    lines = render_text(report(findings=findings)).splitlines()
    start = lines.index("arch-coverage (3; docs/rules.md#arch-coverage)")
    assert lines[start + 1 : -2] == [
        "  error: ext/_c.so: it is wrong",
        "      target: b200",
        "  error: ext/_d.so: it is wrong",
        "  waived: ext/_e.so: it is wrong",
        "      waiver: known upstream (until 2027-01-01)",
        "  fix: build it",
        "",
        "unreadable (2; docs/rules.md#unreadable)",
        "  warning: x: it is wrong",
        "  note: y: it is wrong",
        "  fix: look",
        "",
    ]
    assert lines[-1] == "FAILED: 2 errors, 2 others, 1 waived, 0 declared exceptions; 1.50 s"


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
    assert render_text(made).splitlines()[-1].startswith("FAILED: 1 errors" if failed else "clean: 0 errors")
    counts = made.counts()
    assert (counts["findings"], counts["fatal"] > 0) == (len(findings), failed)
    assert counts["waived"] == sum(bool(item.waiver) for item in findings)
    assert {key: counts[key] for key in FACTS} == FACTS


def test_exceptions_remembered_digests_and_the_driver_are_told() -> None:
    expected = (Expected(subject="x.so", what="2 containers none on b200", reason="made for Hopper only"),)
    text = render_text(
        report(expected=expected, facts={**FACTS, "remembered_digests": 7}, driver_libraries={"libcuda.so.1": 3})
    )
    assert "declared exceptions:\n  x.so: 2 containers none on b200\n      made for Hopper only\n" in text
    assert "7 of the 10 digests are from the fact cache" in text
    assert "from the GPU driver of the host (number of files that need it): libcuda.so.1 (3)\n" in text
    assert "0 waived, 1 declared exceptions" in text


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    env = write_sound_environment(tmp_path / "e")
    section = write_section(
        write_container(Entry("sm_90a", b"x" * 16), "sm_100a"),
        write_container("sm_90a", "compute_90"),
        write_container("sm_90a"),
    )
    env.add("ext", {"ext/_c.so": write_elf(needed=["libcuda.so.1"], sections=[(".nv_fatbin", section)])})
    return env


def test_numbers_of_an_environment(env: EnvironmentWriter) -> None:
    made = audit_environment(env.prefix, load_profile("probe"))
    (coverage,) = made.coverage
    assert (coverage.file, coverage.mode, coverage.containers) == ("ext/_c.so", "registering", 3)
    assert coverage.images == {"compute_90": 1, "sm_100a": 1, "sm_90a": 3}
    assert coverage.payload_bytes == 16 * 5
    assert coverage.targets == (
        TargetCoverage(target="h100", sass=3, ptx_jit=0, none=0),
        TargetCoverage(target="b200", sass=1, ptx_jit=1, none=1),
    )
    files = [path for path in env.prefix.rglob("*") if path.is_file()]
    assert made.facts["files"] == len(files)
    assert made.facts["bytes"] == sum(path.stat().st_size for path in files)
    assert made.facts["verified_files"] == len(files) - 3  # all but the RECORD files
    assert (made.facts["shared_objects"], made.facts["containers"], made.facts["images"]) == (2, 3, 5)
    assert made.driver_libraries == {"libcuda.so.1": 1}
    assert made.counts()["fatal"] == 2  # PTX alone and nothing at all are two findings
    assert {item.rule for item in made.findings if item.fatal} == {"arch-coverage"}


def test_mode_of_a_file_is_what_the_expectations_say(env: EnvironmentWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Dispatching(files=("ext/*",), reason="written for this test only")
    policy = make_policy(Expectations(schema=1, dispatching=(entry,)))
    monkeypatch.setattr("orbit.audit.run.load_policy", lambda *_args, **_named: policy)
    made = audit_environment(env.prefix, policy.profile)
    assert [item.mode for item in made.coverage] == ["dispatching"]
    assert not made.failed
    assert "  file  " in render_text(made)


def test_report_survives_its_json(env: EnvironmentWriter) -> None:
    made = audit_environment(env.prefix, load_profile("probe"))
    assert msgspec.json.decode(canonical(made), type=AuditReport) == made
    again = msgspec.json.decode(msgspec.json.encode(made), type=AuditReport)
    assert render_text(again) == render_text(made)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(canonical(made).replace(b'"uid"', b'"user"'), type=AuditReport)


def test_published_schema_is_current() -> None:
    published = data_root() / "docs" / "schemas" / "audit.json"
    assert published.read_bytes() == json_schema(), "orbit audit --schema > docs/schemas/audit.json"


def test_schema_names_every_key_of_a_report() -> None:
    definitions = json.loads(json_schema())["$defs"]
    made = json.loads(canonical(report(coverage=(COVERAGE,), findings=(finding(evidence={"a": "b"}),))))
    for name, value in (
        ("AuditReport", made),
        ("LibraryCoverage", made["coverage"][0]),
        ("TargetCoverage", made["coverage"][0]["targets"][0]),
        ("Finding", made["findings"][0]),
    ):
        assert set(value) == set(definitions[name]["properties"]), name
        assert definitions[name]["additionalProperties"] is False
    assert set(definitions["AuditReport"]["required"]) == set(made)
    assert made["schema"] == "orbit.audit/1"
