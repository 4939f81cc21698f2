"""What changed between two reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from orbit.audit.reports.diff import SCHEMA, Change, NumberChange, ReportDiff, diff_reports, load_report
from orbit.audit.reports.report import (
    ArchitectureUse,
    LibraryCoverage,
    LibraryRelease,
    LoaderRow,
    TargetReport,
    json_schema,
)
from orbit.core.findings import Finding, Severity
from orbit.core.paths import data_root
from orbit.core.records import canonical, dump_json
from orbit.errors import InputError
from tests.audit.written_reports import COVERAGE, FACTS, call, finding, full_report, hostile_report, report


def diff(a: dict[str, Any], b: dict[str, Any]) -> ReportDiff:
    return diff_reports(report(**a), report(**b))


def test_equal_reports_have_no_difference() -> None:
    for made in (report(), full_report(), hostile_report()):
        found = diff_reports(made, made)
        assert found.same
        assert not found.worse


def test_findings_are_new_fixed_or_changed() -> None:
    one = finding(subject="a.so", message="2 of 14 containers have nothing")
    other = finding(subject="b.so")
    more = msgspec.structs.replace(one, message="3 of 15 containers have nothing")
    fresh = finding(Severity.NOTE, subject="c.so")
    found = diff({"findings": (one, other)}, {"findings": (fresh, more)})
    assert (found.new, found.fixed) == ((fresh,), (other,))
    assert [(pair.before, pair.after) for pair in found.changed] == [(one, more)]
    assert not found.worse
    assert not found.same


def test_same_rule_and_subject_with_another_message_is_a_change() -> None:
    old, now = finding(message="needs f1"), finding(message="needs f2")
    found = diff({"findings": (old,)}, {"findings": (now,)})
    assert (found.new, found.fixed) == ((), ())
    assert found.changed[0].after == now


def test_two_findings_of_one_subject_are_paired_once() -> None:
    a, b, c = (finding(message=f"needs {name}") for name in "abc")
    found = diff({"findings": (a, b)}, {"findings": (b, c, a)})
    assert (found.new, found.fixed, found.changed) == ((c,), (), ())
    found = diff({"findings": (a, b, c)}, {"findings": (b,)})
    assert (found.new, found.fixed, found.changed) == ((), (a, c), ())


def test_new_findings_stand_with_the_worst_first() -> None:
    findings = (
        finding(subject="w", waiver="x"),
        finding(Severity.NOTE, subject="n"),
        finding(Severity.WARNING, subject="v"),
        finding(subject="e"),
    )
    assert [item.subject for item in diff({}, {"findings": findings}).new] == ["e", "v", "n", "w"]


def test_a_rule_that_judged_one_side_only_is_not_compared() -> None:
    found = diff({"rules": ("unreadable",)}, {"findings": (finding(),), "rules": ("unreadable", "arch-coverage")})
    assert (found.new, found.fixed) == ((), ())
    assert found.not_compared == {"arch-coverage": 1}
    assert (found.worse, found.same) == (False, True)


GAP = msgspec.structs.replace(COVERAGE, targets=tuple(msgspec.structs.replace(t, none=9) for t in COVERAGE.targets))


@pytest.mark.parametrize(
    ("a", "b", "worse"),
    [
        ({}, {"findings": (finding(),)}, True),
        ({}, {"findings": (finding(Severity.WARNING),)}, False),
        ({}, {"findings": (finding(waiver="x"),)}, False),
        ({"findings": (finding(),)}, {"findings": (finding(),)}, False),
        ({"findings": (finding(waiver="x"),)}, {"findings": (finding(),)}, True),
        ({"findings": (finding(Severity.WARNING),)}, {"findings": (finding(),)}, True),
        ({"findings": (finding(),)}, {}, False),
        ({"coverage": (COVERAGE,)}, {"coverage": (GAP,)}, True),
        ({"coverage": (GAP,)}, {"coverage": (COVERAGE,)}, False),
        ({"coverage": ()}, {"coverage": (GAP,)}, False),
    ],
)
def test_worse_is_a_new_error_or_a_poorer_result(a: dict[str, Any], b: dict[str, Any], worse: bool) -> None:
    assert diff(a, b).worse is worse


def test_coverage_says_which_target_changed() -> None:
    bigger = msgspec.structs.replace(COVERAGE, file="same.so", payload_bytes=1)
    same = msgspec.structs.replace(COVERAGE, file="same.so")
    gone = msgspec.structs.replace(COVERAGE, file="gone.so")
    found = diff({"coverage": (COVERAGE, same, gone)}, {"coverage": (GAP, bigger)}).coverage
    assert [(change.file, change.before is None, change.after is None) for change in found] == [
        ("ext/_c.so", False, False),
        ("same.so", False, False),
        ("gone.so", False, True),
    ]
    assert found[0].results == (Change(name="h100", before="sass", after="none"),)
    assert (found[1].results, found[2].results) == ((), ())


def test_coverage_of_other_targets_is_no_loss() -> None:
    renamed = msgspec.structs.replace(COVERAGE.targets[1], target="b300")
    now = msgspec.structs.replace(COVERAGE, targets=(COVERAGE.targets[0], renamed))
    assert isinstance(now, LibraryCoverage)
    found = diff({"coverage": (COVERAGE,)}, {"coverage": (now,)})
    assert (found.coverage[0].results, found.worse) == ((), False)


def test_versions_libraries_loader_numbers_and_architectures() -> None:
    row = LoaderRow(file="a.so", soname="libnccl.so.2", how="loader", path="x/libnccl.so.2")
    moved = msgspec.structs.replace(row, how="ambiguous", path="x/libnccl.so.2 y/libnccl.so.2")
    nccl = LibraryRelease(family="NCCL", file="x/libnccl.so.2", soname="libnccl.so.2", release="2.28.9")
    arch = ArchitectureUse(arch="sm_90", images=1, payload_bytes=10, sass=("h100",), jit=())
    found = diff(
        {"distributions": {"a": "1", "b": "1", "c": "1"}, "loader": (row,), "libraries": (nccl,),
         "architectures": (arch,), "facts": {**FACTS, "remembered_digests": 1}},
        {"distributions": {"a": "1", "b": "2", "d": "1"}, "loader": (moved,),
         "libraries": (msgspec.structs.replace(nccl, release=""),), "facts": {**FACTS, "files": 13}},
    )  # fmt: skip
    assert found.distributions == (
        Change(name="b", before="1", after="2"),
        Change(name="c", before="1", after=""),
        Change(name="d", before="", after="1"),
    )
    assert [(change.before, change.after) for change in found.loader] == [(row, moved)]
    assert found.libraries == (Change(name="NCCL x/libnccl.so.2", before="2.28.9", after="not stated"),)
    assert found.architectures == (NumberChange(name="sm_90", before=10, after=0),)
    assert found.facts == (NumberChange(name="files", before=12, after=13),)


def test_depth_is_compared_when_both_sides_have_it() -> None:
    full = full_report()
    fewer = msgspec.structs.replace(
        full.depth[0], targets=(full.depth[0].targets[0], msgspec.structs.replace(full.depth[0].targets[1], kernels=3))
    )
    changed = msgspec.structs.replace(full, depth=(fewer,))
    assert [(item.file, item.target) for item in diff_reports(full, changed).depth] == [("ext/_c.so", "b200")]
    assert diff_reports(full, msgspec.structs.replace(full, depth=())).depth == ()


def test_a_saved_file_must_hold_one_report(tmp_path: Path) -> None:
    dump_json(tmp_path / "one.json", call(full_report()))
    assert load_report(tmp_path / "one.json") == full_report()
    dump_json(tmp_path / "two.json", call(report(), report()))
    with pytest.raises(InputError, match="holds 2 reports"):
        load_report(tmp_path / "two.json")


PAIRS = [(report(), full_report()), (full_report(), report()), (hostile_report(), full_report())]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_json_keeps_the_published_schema(a: TargetReport, b: TargetReport) -> None:
    schema = json.loads((data_root() / "docs/schemas/audit-diff.json").read_bytes())
    document = json.loads(canonical(diff_reports(a, b)))
    assert document["schema"] == SCHEMA
    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)] == []
    assert msgspec.convert(document, ReportDiff) == diff_reports(a, b)
    del document["worse"]
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(document))


def test_published_schema_is_current() -> None:
    published = data_root() / "docs/schemas/audit-diff.json"
    assert published.read_bytes() == json_schema(ReportDiff)


def test_order_of_the_findings_does_not_matter() -> None:
    findings: list[Finding] = [finding(subject=name) for name in ("a", "b", "c")]
    found = diff({"findings": tuple(findings)}, {"findings": tuple(reversed(findings))})
    assert found.same
