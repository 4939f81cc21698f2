"""Reports: what they count, which exit status they give, how they read."""

from __future__ import annotations

from pathlib import Path

from orbit.core.findings import Skipped
from orbit.core.records import dump_json, load_json
from orbit.errors import ExitCode
from orbit.image.smoke.report import SmokeReport, SmokeRun, render, to_junit
from orbit.smoke.model import CheckResult
from tests.image.tiny import result
from tests.writers.junit import check_junit


def report(*results: CheckResult, not_run: tuple[Skipped, ...] = ()) -> SmokeReport:
    runs = (SmokeRun(list="cpu", uid=65534, seconds=2.0, results=results),) if results else ()
    return SmokeReport(
        profile="p",
        image="sha256:0",
        engine="bubblewrap",
        engine_version="0.8",
        real_ids=True,
        runs=runs,
        not_run=not_run,
    )


def test_a_clean_report() -> None:
    clean = report(result("a"), result("b", "needs-driver"))
    assert clean.passed
    assert clean.exit_code is ExitCode.OK
    assert clean.counts() == {"passed": 1, "failed": 0, "needs-driver": 1, "skipped": 0, "runs": 1, "seconds": 2}


def test_a_failure_is_a_finding_with_its_output() -> None:
    bad = report(result("a"), result("b", "failed", "broken", "the output"))
    (finding,) = bad.findings()
    assert (finding.message, finding.evidence) == ("broken", {"output": "the output"})
    assert "cpu/b as uid 65534" in finding.subject
    assert not bad.passed
    assert bad.exit_code is ExitCode.FINDINGS
    assert "| the output" in render(bad)


def test_what_was_skipped_is_never_success() -> None:
    part = report(result("a"), result("b", "skipped", "no GPU"))
    assert [item.reason for item in part.skipped()] == ["no GPU"]
    assert part.exit_code is ExitCode.MISSING
    nothing = report(not_run=(Skipped(what="smoke cpu", reason="no engine"),))
    assert not nothing.passed
    assert nothing.exit_code is ExitCode.MISSING
    assert "skipped smoke cpu: no engine" in render(nothing)
    assert "nothing was run" in render(nothing)


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    whole = report(result("a"), result("b", "failed", "x", "y"))
    dump_json(tmp_path / "r.json", whole)
    assert load_json(tmp_path / "r.json", SmokeReport) == whole


def test_junit_has_a_suite_for_each_run_and_tells_what_was_not_run() -> None:
    whole = report(
        result("a", detail="fine"),
        result("b", "failed", "broken", "the output"),
        result("c", "skipped", "no GPU"),
        result("d", "needs-driver", "needs libcuda.so.1"),
        not_run=(Skipped(what="smoke gpu", reason="no engine"),),
    )
    ran, absent = check_junit(to_junit(whole))
    assert (ran.get("name"), absent.get("name")) == ("cpu as uid 65534", "smoke gpu")
    counts = {name: ran.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "0", "skipped": "1"}
    values = {item.get("name"): item.get("value") for item in ran.iter("property")}
    assert values == {"profile": "p", "image": "sha256:0", "engine": "bubblewrap 0.8", "uid": "65534"}
    good, bad, skipped, driver = ran.iter("testcase")
    assert good.findtext("system-out") == "fine"
    assert bad.findtext("failure") == "broken\nthe output"
    assert [item.get("message") for item in skipped] == ["no GPU"]
    assert driver.findtext("system-out") == "needs-driver: needs libcuda.so.1"
    assert absent.get("skipped") == "1"
