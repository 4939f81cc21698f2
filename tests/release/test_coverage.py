"""Coverage: what each GPU gets of each file, counted as the audit counted, with what was declared."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from orbit.audit.reports.report import json_schema
from orbit.core.findings import Severity
from orbit.core.paths import data_root
from orbit.errors import InputError
from orbit.profile.model import load_profile
from orbit.release.attest.statement import COVERAGE, times_of
from orbit.release.coverage import Coverage, Waiver, coverage_of_run, make_coverage, summary_lines
from tests.audit.written_reports import finding
from tests.release.made import DIGEST, FILES, MANIFESTS, audit, coverage, summary, write_run

PROFILE = load_profile("probe")


def made(**changes: object) -> Coverage:
    return make_coverage(
        PROFILE, audit(**changes), MANIFESTS, report_sha256="a" * 64, orbit_version="0.1.0", made="2026-11-30T20:30:00Z"
    )


def test_each_gpu_is_counted() -> None:
    h100, b200 = made().targets
    assert (h100.name, h100.capability, h100.feature, h100.devices) == ("h100", "9.0", "sm_90a", ("H100", "H200"))
    assert h100.containers == {"sass": 8, "ptx-jit": 0, "none": 4}
    assert b200.containers == {"sass": 6, "ptx-jit": 5, "none": 1}
    # a dispatching file counts as a whole, a registering one is as bad as its worst container
    assert h100.files == {"sass": 3, "ptx-jit": 0, "none": 1}
    assert b200.files == {"sass": 2, "ptx-jit": 1, "none": 1}


def test_each_file_has_its_distribution_and_its_counts() -> None:
    files = {row.file: row for row in made().files}
    assert (files["good/_d.so"].distribution, files["good/_d.so"].version) == ("good", "2.0")
    assert (files["ext/_c.so"].distribution, files["ext/_c.so"].version) == ("ext", "1.0"), "from its manifest"
    assert (files["/usr/lib/odd.so"].distribution, files["/usr/lib/odd.so"].version) == ("", "")
    h100, b200 = files["ext/_c.so"].targets
    assert (h100.result, b200.result) == ("sass", "none")
    assert (b200.sass, b200.ptx_jit, b200.none) == (1, 2, 1)
    assert files["good/_e.so"].targets[0].result == "sass"
    assert all(row.containers == sum((t.sass, t.ptx_jit, t.none)) for row in files.values() for t in row.targets)


def test_what_was_declared_and_waived_has_its_reason() -> None:
    found = made()
    assert [(e.subject, e.reason) for e in found.expected] == [("x.so", "made for Hopper only")]
    (waiver,) = found.waivers
    assert (waiver.reason, waiver.expires) == ("known upstream", "2027-01-01")
    odd = made(findings=(finding(waiver="because"),)).waivers
    assert odd == (
        Waiver(rule="arch-coverage", subject="ext/_c.so", finding="it is wrong", reason="because", expires=""),
    )


def test_the_audit_is_named() -> None:
    found = made().audit
    assert (found.orbit, found.schema, found.report_sha256) == ("0.1.0", "orbit.audit/2", "a" * 64)
    assert found.findings == {"fatal": 1, "waived": 1, "other": 2}
    assert found.not_judged == ("record-hash: not selected",)
    assert "arch-coverage" in found.rules


def test_kernels_say_for_what_they_were_compiled() -> None:
    kernels = {kernel.distribution: kernel for kernel in made().kernels}
    assert list(kernels) == sorted(kernels)
    assert kernels["fast"].requested == ("compute_90a:sm_90a",)
    assert kernels["zeta"].mode == "wheel"


def test_a_report_that_does_not_fit_the_profile() -> None:
    with pytest.raises(InputError, match="is of profile cu130, not probe"):
        made(profile="cu130")
    with pytest.raises(InputError, match="says nothing about b200 in 1 files"):
        made(files=(*FILES, coverage("new.so", ("h100", 1, 0, 0))))


def test_the_statement_of_a_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", summary("x"), audit())
    statement = coverage_of_run(folder, PROFILE)
    assert (statement.predicate_type, statement.image_digest) == (COVERAGE, DIGEST)
    digest = hashlib.sha256((folder / "image-audit.json").read_bytes()).hexdigest()
    assert statement.predicate["audit"]["report_sha256"] == digest
    assert [moment.isoformat() for moment in times_of(statement, "x")] == ["2026-11-30T20:30:00+00:00"]
    (folder / "image-audit.json").unlink()
    with pytest.raises(InputError, match=r"image-audit\.json: no such file"):
        coverage_of_run(folder, PROFILE)


def test_it_fits_the_published_schema_and_nothing_else_does() -> None:
    published = data_root() / "docs/schemas/gpu-arch-coverage.json"
    assert published.read_bytes() == json_schema(Coverage), (
        "orbit gate attest --schema gpu-arch-coverage > docs/schemas/gpu-arch-coverage.json"
    )
    check = jsonschema.Draft202012Validator(json.loads(published.read_bytes()))
    document = json.loads(msgspec.json.encode(made()))
    assert [error.message for error in check.iter_errors(document)] == []
    document["targets"][0]["more"] = 1
    del document["audit"]["report_sha256"]
    messages = " ".join(error.message for error in check.iter_errors(document))
    assert "'more' was unexpected" in messages
    assert "'report_sha256' is a required property" in messages


def test_for_people() -> None:
    lines = list(summary_lines(made(findings=(finding(Severity.NOTE),))))
    assert lines[0].startswith("h100 (9.0): of 4 files with device code 3 run as machine code, 0 are compiled by")
    assert lines[-1] == "1 declared deviations, 0 waivers"
