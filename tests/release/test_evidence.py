"""Evidence: what a reader of a run's folder can rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.findings import Finding, Severity, Skipped
from orbit.core.records import load_json
from orbit.errors import InputError
from orbit.release.evidence import (
    Result,
    StageRecord,
    Summary,
    render_markdown,
    write_stage,
    write_summary,
)

DIGEST = "sha256:" + "ab" * 32


def stage(name: str = "audit", **changes: object) -> StageRecord:
    values: dict[str, object] = {
        "stage": name,
        "result": Result.PASSED,
        "started": "2026-01-02T03:04:05+00:00",
        "seconds": 4.2,
        "peak_memory_bytes": 73_000_000,
        "outputs": {"files": 12, "digest": DIGEST, "detail": {"not": "shown"}},
    }
    return StageRecord(**(values | changes))  # type: ignore[arg-type]


def summary(*stages: StageRecord, result: Result = Result.PASSED) -> Summary:
    return Summary(
        run="probe-20260102T030405Z",
        profile="probe",
        orbit_version="0.1.0",
        result=result,
        image_digest=DIGEST,
        stages=stages,
        started="2026-01-02T03:04:05+00:00",
        seconds=187.0,
    )


def test_records_come_back_as_written(tmp_path: Path) -> None:
    record = stage(skipped=(Skipped(what="flash-attn", reason="tier extended", estimate="6 core-hours"),))
    path = write_stage(tmp_path, 4, record)
    assert path.name == "04-audit.json"
    assert load_json(path, StageRecord) == record


def test_a_cut_record_is_refused_with_its_path(tmp_path: Path) -> None:
    path = write_stage(tmp_path, 1, stage())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"01-audit\.json"):
        load_json(path, StageRecord)


def test_the_page_leads_with_the_verdict_and_hides_nothing(tmp_path: Path) -> None:
    open_finding = Finding(rule="record-hash", severity=Severity.ERROR, subject="a.py", message="bytes differ")
    waived = Finding(
        rule="arch-coverage", severity=Severity.ERROR, subject="b.so", message="no sm_100", waiver="Hopper only"
    )
    page = render_markdown(
        summary(
            stage("kernels", skipped=(Skipped(what="flash-attn", reason="tier extended", estimate="6 core-hours"),)),
            stage("audit", result=Result.FAILED, reason="1 finding(s)", findings=(open_finding, waived)),
            stage("image", result=Result.SKIPPED, reason="an earlier stage failed", outputs={}),
            result=Result.FAILED,
        )
    )
    assert page.startswith("# probe: failed\n")
    for text in (
        "**audit**: 1 finding(s)",
        "flash-attn: tier extended (would cost 6 core-hours)",
        "**image**: an earlier stage failed",
        "error `record-hash` a.py: bytes differ",
        "error `arch-coverage` b.so: no sm_100 (Hopper only)",
        "| audit | failed | 4.2 s | 73.0 MB |",
    ):
        assert text in page
    assert page.index("## Findings") < page.index("record-hash") < page.index("## Waived")
    assert "{'not'" not in page


def test_summary_writes_both_forms(tmp_path: Path) -> None:
    write_summary(tmp_path, summary(stage()))
    assert load_json(tmp_path / "summary.json", Summary).image_digest == DIGEST
    assert "reused" not in (tmp_path / "summary.md").read_text()
