"""The report as text: what stands where, at every width, and that nothing in it can play tricks with a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from orbit.audit.known.policy import Dispatching, Expectations
from orbit.audit.reports.report import Expected, LibraryCoverage, TargetReport
from orbit.audit.reports.text import render_reports, render_text
from orbit.audit.run import audit_environment
from orbit.core.findings import Severity, Skipped
from orbit.profile.model import load_profile
from tests.audit.support import make_policy
from tests.audit.written_reports import COVERAGE, FACTS, call, finding, full_report, hostile_report, report
from tests.writers.elf import write_elf
from tests.writers.environment import write_sound_environment
from tests.writers.fatbin import write_container, write_section

WIDTHS = (80, 120, None)


def many() -> TargetReport:
    """45 files of one cause, a rule with a fix for each of its 12 findings, a warning and a waived one."""
    findings = [
        finding(
            subject=f"mega/kernels/_fused_{i}.so",
            message=f"{i + 1} of 50 containers have nothing that b200 (B200) can load",
            evidence={"target": "b200", "first": f".nv_fatbin[{i}]"},
        )
        for i in range(45)
    ]
    findings += [
        finding(rule="symbol-version", subject=f"p{i}/_C.so", message=f"needs f{i}", fix=f"lock a release with f{i}")
        for i in range(12)
    ]
    findings.append(finding(Severity.WARNING, rule="unreadable", subject="x", message="is closed", fix="chmod a+r"))
    findings.append(finding(rule="foreign-extension", subject="y", waiver="known (until 2027-01-01)"))
    return report(findings=tuple(findings), coverage=(COVERAGE,))


def test_clean_report_without_device_code() -> None:
    assert render_text(report(), width=93).splitlines() == [
        "audit of /opt/orbit",
        "environment, profile probe, judged for uid 65534",
        "",
        "no device code",
        "",
        "looked at 12 files (3.0 kB), 3 distributions, 2 shared objects, 4 containers of device code",
        "  in 1 file, 10 files (1.23 GB) compared with RECORD",
        "",
        "clean: 0 errors; 1.50 s",
    ]


def test_findings_of_one_cause_are_one_block() -> None:
    lines = render_text(many(), width=100).splitlines()
    start = lines.index("ERROR arch-coverage (45)")
    assert lines[start + 1 : start + 16] == [
        "  wanted: every piece of device code has machine code for every target",
        *(
            f"  mega/kernels/_fused_{i}.so: {i + 1} of 50 containers have nothing that b200 (B200) can load"
            for i in range(8)
        ),
        "    ... and 37 more",
        "    seen in mega/kernels/_fused_0.so:",
        "      target: b200",
        "      first: .nv_fatbin[0]",
        "  fix: build it",
        "  more: orbit audit explain arch-coverage",
    ]
    assert sum("fix: build it" in line for line in lines) == 1
    assert sum(line.startswith("ERROR ") for line in lines) == 2
    assert "  ... and 6 findings more of this rule; --verbose lists them" in lines
    assert "waived: foreign-extension (1); --verbose lists them with reason and expiry" in lines


def test_message_that_all_share_is_said_once() -> None:
    findings = tuple(finding(subject=name) for name in ("a.so", "b.so"))
    assert "  it is wrong\n    a.so\n    b.so\n" in render_text(report(findings=findings))


def test_errors_come_first_then_what_to_do_then_one_line() -> None:
    text = render_text(many(), width=100)
    places = [
        text.index(word) for word in ("ERROR arch", "ERROR symbol", "WARNING unreadable", "waived:", "What to do")
    ]
    assert places == sorted(places)
    end = text[text.index("What to do") :].splitlines()
    assert end == [
        "What to do",
        "  1. build it",
        "     error arch-coverage: mega/kernels/_fused_0.so and 44 more",
        "  2. lock a release with f0",
        "     error symbol-version: p0/_C.so; 11 more fixes like this one stand with the findings",
        "  3. chmod a+r",
        "     warning unreadable: x",
        "",
        "FAILED: 57 errors, 1 warning, 1 waived; 1.50 s",
    ]


def test_verbose_lists_everything() -> None:
    text = render_text(many(), verbose=True)
    for i in range(45):
        assert f"mega/kernels/_fused_{i}.so: {i + 1} of 50" in text
        assert f"first: .nv_fatbin[{i}]" in text
    for i in range(12):
        assert text.count(f"lock a release with f{i}\n") == 2  # beside the finding, and under what to do
    assert "WAIVED foreign-extension" in text
    assert "waiver: known (until 2027-01-01)" in text
    assert [line for line in text.splitlines() if re.search(r"\bmore\b(?!:)|--verbose", line)] == [
        "     error arch-coverage: mega/kernels/_fused_0.so and 44 more"
    ]


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("made", [many(), full_report(), report(), hostile_report()])
def test_lines_keep_the_width_unless_one_word_is_longer(made: TargetReport, width: int | None, verbose: bool) -> None:
    prose = render_text(made, width=width, verbose=verbose)
    if width is None:  # then the table is as wide as its longest name
        prose = "\n".join(
            line for line in prose.splitlines() if not re.search(r"^device code|\d[ *] +(ok|! |\()", line)
        )
    for line in prose.splitlines():
        assert line == line.rstrip()
        if len(line) > (width or 120):
            longest = max(line.split(), key=len)  # a path, which must stay whole
            assert len(line) - len(longest) <= (width or 120), line
            assert len(longest) > 25, line


def test_without_a_width_names_in_the_table_are_whole() -> None:
    long = msgspec.structs.replace(COVERAGE, file="folder/" * 30 + "x.so")
    assert long.file in render_text(report(coverage=(long,)))
    cut = render_text(report(coverage=(long,)), width=80)
    (row,) = [line for line in cut.splitlines() if "..." in line and "x.so" in line]
    assert len(row) <= 80
    assert row.startswith("folder/")


def test_coverage_table_has_a_column_for_each_target() -> None:
    other = msgspec.structs.replace(COVERAGE, file="vendor/lib/libx.so.13", mode="dispatching")
    made = report(coverage=(other, COVERAGE), findings=(finding(evidence={"target": "b200"}),))
    lines = render_text(made, width=70).splitlines()[3:7]
    assert lines == [
        "device code             MB  containers   h100  b200",
        "ext/_c.so              2.5           4   ok    ! 2 ptx 1 none",
        "vendor/lib/libx.so.13  2.5           4*  ok    ok",
        "ok: machine code for that target; !: a finding below; *: picks its",
    ]


@pytest.mark.parametrize(
    ("changes", "cell"),
    [
        ({}, "(2 ptx 1 none)"),
        ({"rules": ("unreadable",)}, "? 2 ptx 1 none"),
        ({"findings": (finding(waiver="x"),)}, "(2 ptx 1 none)w"),
        ({"findings": (finding(),)}, "! 2 ptx 1 none"),
    ],
)
def test_cell_says_whether_somebody_knows_of_the_gap(changes: dict[str, object], cell: str) -> None:
    lines = render_text(report(coverage=(COVERAGE,), **changes)).splitlines()
    assert lines[4].endswith(f"  {cell}")
    assert "machine code for that target" in lines[5]


@pytest.mark.parametrize(("ptx", "none", "cell"), [(2, 1, "(ptx only)"), (0, 3, "(none)")])
def test_cell_of_a_file_that_picks_by_device(ptx: int, none: int, cell: str) -> None:
    target = msgspec.structs.replace(COVERAGE.targets[1], sass=0, ptx_jit=ptx, none=none)
    item = msgspec.structs.replace(COVERAGE, mode="dispatching", targets=(target,))
    assert render_text(report(coverage=(item,))).splitlines()[4].endswith(f"  {cell}")


def test_long_table_shows_the_gaps_first_and_counts_the_rest() -> None:
    whole = tuple(
        msgspec.structs.replace(COVERAGE, file=f"c{i:02}.so", payload_bytes=i * 1_000_000, targets=COVERAGE.targets[:1])
        for i in range(40)
    )
    gap = msgspec.structs.replace(COVERAGE, file="gap.so", payload_bytes=1, targets=COVERAGE.targets[1:])
    made = report(coverage=(*whole, gap), findings=(finding(subject="gap.so"),))
    lines = render_text(made).splitlines()
    assert [line.split()[0] for line in lines[4:16]] == ["gap.so", *(f"c{i}.so" for i in range(39, 28, -1))]
    assert lines[16] == "... and 29 files more (406.0 MB), all covered; --verbose lists them"
    assert len(re.findall(r"^c\d\d\.so", render_text(made, verbose=True), re.MULTILINE)) == 40


def test_exceptions_skipped_work_remembered_digests_and_the_driver_are_told() -> None:
    made = report(
        expected=(Expected(subject="x.so", what="2 containers none on b200", reason="made for Hopper only"),),
        facts={**FACTS, "remembered_digests": 7},
        driver_libraries={"libcuda.so.1": 3},
        skipped=(Skipped(what="a", reason="not selected"), Skipped(what="b", reason="not selected", estimate="1 h")),
    )
    text = render_text(made)
    assert "\n1 declared exception true of it; --verbose lists them with their reasons\n" in text
    assert "made for Hopper only" not in text
    assert "\nnot looked at: a - not selected\nnot looked at: b - not selected (1 h)\n" in text
    assert "7 digests remembered from the last audit" in text
    assert "the host's GPU driver must bring (files that need it): libcuda.so.1 (3)\n" in text
    assert text.endswith("clean: 0 errors, 1 declared exception; 1.50 s\n")
    verbose = render_text(made, verbose=True)
    assert "  x.so: 2 containers none on b200\n      made for Hopper only\n" in verbose


def test_facts_of_another_kind_are_told_too() -> None:
    text = render_text(report(kind="lock", facts={"packages": 264, "odd_things": 2, "none_of_it": 0}))
    assert "looked at 264 packages, 2 odd things\n" in text
    assert "device code" not in text


def test_long_evidence_is_cut_unless_verbose() -> None:
    made = report(findings=(finding(evidence={"files": "x" * 500, "empty": ""}),))
    assert f"files: {'x' * 240} ... (260 more)" in " ".join(render_text(made).split())
    assert "empty" not in render_text(made, verbose=True)
    assert "x" * 500 in render_text(made, verbose=True)


def test_colour_changes_nothing_but_colour() -> None:
    for made in (many(), full_report(), hostile_report()):
        plain = render_text(made, width=80)
        painted = render_text(made, width=80, color=True)
        assert "\x1b[1;31m" in painted
        assert re.sub(r"\x1b\[[0-9;]*m", "", painted).splitlines() == plain.splitlines()


@pytest.mark.parametrize("verbose", [False, True])
def test_hostile_names_cannot_move_the_cursor_or_forge_a_line(verbose: bool) -> None:
    text = render_text(hostile_report(), verbose=verbose) + render_reports(
        call(hostile_report(), unread=(Skipped(what="\x1b[2J", reason="\u202e"),)), verbose=verbose
    )
    assert all(line.isprintable() for line in text.split("\n"))
    assert "\nFAILED" in text
    assert "\nbreak" not in text


def test_several_targets_end_with_a_line_each() -> None:
    unread = (Skipped(what="broken.whl", reason="not a zip file"),)
    text = render_reports(call(full_report(), report(target="wheels", kind="wheels"), unread=unread), width=80)
    assert text.count("audit of ") == 2
    assert text.splitlines()[-5:] == [
        "",
        "FAILED  1 error, 1 warning, 1 note, 1 waived, 1 declared exception  /opt/orbit",
        "clean   0 errors  wheels",
        "UNREAD  broken.whl",
        "        not a zip file",
    ]
    assert render_reports(call(report())) == render_text(report())
    only = render_reports(call(unread=unread))
    assert only == "UNREAD  broken.whl\n        not a zip file\n"


def test_mode_of_a_file_is_what_the_expectations_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = write_sound_environment(tmp_path / "e")
    section = write_section(write_container("sm_90a", "sm_100a"), write_container("sm_90a"))
    env.add("ext", {"ext/_c.so": write_elf(sections=[(".nv_fatbin", section)])})
    entry = Dispatching(files=("ext/*",), reason="written for this test only")
    policy = make_policy(Expectations(schema=1, dispatching=(entry,)))
    monkeypatch.setattr("orbit.audit.run.load_policy", lambda *_args, **_named: policy)
    made = audit_environment(env.prefix, policy.profile)
    (item,) = made.coverage
    assert isinstance(item, LibraryCoverage)
    assert (item.mode, made.failed) == ("dispatching", False)
    assert re.search(r"^ext/_c.so +0\.0 +2\*  ok    ok$", render_text(made), re.MULTILINE)
    assert render_text(msgspec.json.decode(msgspec.json.encode(made), type=TargetReport)) == render_text(made)


def test_text_of_a_broken_environment_says_what_to_build(tmp_path: Path) -> None:
    env = write_sound_environment(tmp_path / "e")
    env.add("ext", {"ext/_c.so": write_elf(sections=[(".nv_fatbin", write_section(write_container("sm_90a")))])})
    text = render_text(audit_environment(env.prefix, load_profile("probe")), width=80)
    for words in ("! 1 none", "ERROR arch-coverage", "ext/_c.so: 1 of 1 containers", "  1. build it for sm_100a"):
        assert words in text
    assert "FAILED: 1 error" in text.splitlines()[-1]
