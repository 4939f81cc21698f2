"""The difference of two reports as text."""

from __future__ import annotations

import re

import msgspec
import pytest

from orbit.audit.reports.diff import diff_reports
from orbit.audit.reports.diff_text import render_diff
from orbit.audit.reports.report import LoaderRow, TargetReport
from orbit.core.findings import Severity
from tests.audit.written_reports import COVERAGE, FACTS, finding, full_report, hostile_report, report


def rows(how: str, count: int) -> tuple[LoaderRow, ...]:
    return tuple(LoaderRow(file=f"f{i}.so", soname="libnccl.so.2", how=how, path="x/l") for i in range(count))


def test_everything_that_changed_has_its_section() -> None:
    poorer = msgspec.structs.replace(
        COVERAGE,
        containers=5,
        images={"sm_90a": 9, "sm_80": 1},
        targets=(msgspec.structs.replace(COVERAGE.targets[0], none=1), COVERAGE.targets[1]),
    )
    a = report(
        coverage=(COVERAGE,),
        findings=(finding(subject="old.so"), finding(subject="x.so", message="2 of 3 are wrong")),
        distributions={"torch": "2.10", "gone": "1"},
        loader=rows("loader", 3),
    )
    b = report(
        target="/opt/new",
        coverage=(poorer,),
        findings=(finding(Severity.WARNING, subject="x.so", message="3 of 3 are wrong"), finding(subject="new.so")),
        distributions={"torch": "2.11", "fresh": "1"},
        loader=rows("ambiguous", 3),
        facts={**FACTS, "bytes": 1_003_000, "files": 10},
        rules=("arch-coverage",),
    )
    assert render_diff(diff_reports(a, b)).splitlines() == [
        "from /opt/orbit",
        "to   /opt/new",
        "",
        "new findings",
        "  + error arch-coverage: new.so: it is wrong",
        "",
        "changed findings",
        "  - error arch-coverage: x.so: 2 of 3 are wrong",
        "  + warning arch-coverage: x.so: 3 of 3 are wrong",
        "",
        "fixed",
        "  - error arch-coverage: old.so: it is wrong",
        "",
        "distributions",
        "  ~ torch 2.10 -> 2.11",
        "  - gone 1",
        "  + fresh 1",
        "",
        "device code",
        "  ~ ext/_c.so: 4 -> 5 containers; images: sm_80 0 -> 1",
        "      h100: sass -> none",
        "",
        "what needed libraries become",
        "  ~ libnccl.so.2: loader x/l -> ambiguous x/l (for f0.so and 2 more)",
        "",
        "numbers",
        "  files: 12 -> 10 (-2)",
        "  bytes: 3.0 kB -> 1.0 MB (+1.0 MB)",
        "",
        "judged on one side only, so not compared: unreadable",
        "",
        (
            "WORSE: 1 new error, 0 other new findings, 1 fixed, 1 changed, 3 distributions differ, "
            "1 file with other device code"
        ),
    ]


def test_no_difference() -> None:
    assert render_diff(diff_reports(full_report(), full_report())).splitlines()[-1] == "no difference"


def test_better_is_not_worse() -> None:
    assert render_diff(diff_reports(full_report(), report())).splitlines()[-1].startswith("not worse: 0 new errors")


def test_finding_with_other_evidence_only_is_one_line() -> None:
    a, b = (report(findings=(finding(evidence={"first": name}),)) for name in "ab")
    assert "  ~ error arch-coverage: ext/_c.so: it is wrong (other first)\n" in render_diff(diff_reports(a, b))


def test_new_and_removed_files_say_what_they_hold() -> None:
    other = msgspec.structs.replace(COVERAGE, file="b.so")
    text = render_diff(diff_reports(report(coverage=(COVERAGE,)), report(coverage=(other,))))
    assert "  - ext/_c.so: 4 containers, 2.5 MB; images: sm_90a 9\n" in text
    assert "  + b.so: 4 containers, 2.5 MB; images: sm_90a 9\n" in text


def test_long_sections_are_cut_unless_verbose() -> None:
    made = diff_reports(report(), report(distributions={f"d{i:03}": "1" for i in range(100)}))
    text = render_diff(made)
    assert text.count("  + d") == 12
    assert "  ... and 88 more; --verbose lists them\n" in text
    assert render_diff(made, verbose=True).count("  + d") == 100


PAIRS = [(report(), hostile_report()), (hostile_report(), full_report()), (full_report(), report())]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_hostile_names_and_colour(a: TargetReport, b: TargetReport) -> None:
    for verbose in (False, True):
        plain = render_diff(diff_reports(a, b), width=80, verbose=verbose)
        assert all(line.isprintable() for line in plain.split("\n"))
        painted = render_diff(diff_reports(a, b), width=80, color=True, verbose=verbose)
        assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain
