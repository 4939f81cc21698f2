"""Evidence: one JSON record per stage, one summary per run, and a page a person can read.

A run's folder is ``<dist>/<run>/`` with ``<NN>-<stage>.json``, ``summary.json`` and ``summary.md``. Records say what
went in (content hashes), what came out, what was reused, what was skipped and why, and what it cost. A reader refuses a
schema it does not know.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from orbit.core.amounts import format_bytes, format_seconds
from orbit.core.files import write_atomic
from orbit.core.findings import Finding, Skipped
from orbit.core.records import Record, content_key, dump_json
from orbit.kernels.manifest import BuildManifest

KERNELS_FILE = "kernels.json"
KERNELS_SCHEMA = "orbit.kernel-manifests/1"
SECOND_PREFIX_SCHEMA = "orbit.second-prefix/1"
STAGE_SCHEMA = "orbit.stage/1"
SUMMARY_SCHEMA = "orbit.summary/1"


class Result(StrEnum):
    """How a stage ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class StageRecord(Record, frozen=True, kw_only=True):
    """What one stage of one run did."""

    schema: str = STAGE_SCHEMA
    stage: str
    result: Result
    reason: str = ""
    """Why it failed or was skipped; empty when it passed."""
    reused: bool = False
    """True when the result was already in the store and nothing was done."""
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    findings: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    """Parts of the stage that were not done."""
    tools: dict[str, str] = {}
    """Version of each program that did the work."""
    started: str
    """UTC, ISO 8601."""
    seconds: float
    peak_memory_bytes: int = 0
    """Highest resident memory of orbit and its children during the stage (upper estimate)."""


class KernelManifests(Record, frozen=True, kw_only=True):
    """``kernels.json``: how each kernel of the run came to be, wheels built here first, then those verified."""

    schema: str = KERNELS_SCHEMA
    manifests: tuple[BuildManifest, ...]

    @property
    def hash(self) -> str:
        """Identity of all of them together: what the record of the stage and the image's label ``io.orbit.kernels``
        say (:attr:`orbit.kernels.build.Wheelhouse.manifest_hash`)."""
        return content_key(self.manifests)


class Summary(Record, frozen=True, kw_only=True):
    """What one run did."""

    schema: str = SUMMARY_SCHEMA
    run: str
    profile: str
    orbit_version: str
    result: Result
    image_digest: str = ""
    """Digest of the image manifest, ``sha256:...``; empty when no image was made."""
    stages: tuple[StageRecord, ...]
    started: str
    seconds: float


def utc_now() -> dt.datetime:
    """The present moment in UTC, to the second."""
    return dt.datetime.now(dt.UTC).replace(microsecond=0)


def write_stage(folder: Path, number: int, record: StageRecord) -> Path:
    """Write one stage's record; returns its path."""
    path = folder / f"{number:02d}-{record.stage}.json"
    dump_json(path, record)
    return path


def write_summary(folder: Path, summary: Summary) -> None:
    """Write ``summary.json`` and ``summary.md``."""
    dump_json(folder / "summary.json", summary)
    write_atomic(folder / "summary.md", render_markdown(summary).encode())


def render_markdown(summary: Summary) -> str:
    """The run as a page: verdict first, then a row per stage, then everything that was not clean."""
    lines = [
        f"# {summary.profile}: {summary.result.value}",
        "",
        f"- run: `{summary.run}`",
        f"- image: `{summary.image_digest or 'none was made'}`",
        f"- started {summary.started}, took {format_seconds(summary.seconds)}, orbit {summary.orbit_version}",
        "",
        "| stage | result | time | memory | what came out |",
        "|---|---|---:|---:|---|",
    ]
    lines += [
        f"| {stage.stage} | {_result_cell(stage)} | {format_seconds(stage.seconds)} "
        f"| {format_bytes(stage.peak_memory_bytes)} | {_outputs_cell(stage.outputs)} |"
        for stage in summary.stages
    ]
    lines += _section("Failed", [f"**{s.stage}**: {s.reason}" for s in summary.stages if s.result is Result.FAILED])
    lines += _section("Not done", _not_done(summary.stages))
    lines += _section("Findings", _findings(summary.stages, waived=False))
    lines += _section("Waived or expected", _findings(summary.stages, waived=True))
    return "\n".join(lines) + "\n"


def _result_cell(stage: StageRecord) -> str:
    return f"{stage.result.value} (reused)" if stage.reused else stage.result.value


def _outputs_cell(outputs: dict[str, Any]) -> str:
    shown = (f"{key} {_short(value)}" for key, value in sorted(outputs.items()) if isinstance(value, str | int | float))
    return ", ".join(shown).replace("|", "\\|")


def _short(value: str | float) -> str:
    text = str(value)
    if len(text) >= 64 and all(c in "0123456789abcdef" for c in text[-64:]):
        return f"`{text[:-52]}`"
    return text


def _section(title: str, rows: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *(f"- {row}" for row in rows)] if rows else []


def _not_done(stages: Sequence[StageRecord]) -> list[str]:
    rows = []
    for stage in stages:
        if stage.result is Result.SKIPPED:
            rows.append(f"**{stage.stage}**: {stage.reason}")
        for part in stage.skipped:
            estimate = f" (would cost {part.estimate})" if part.estimate else ""
            rows.append(f"{stage.stage}: {part.what}: {part.reason}{estimate}")
    return rows


def _findings(stages: Sequence[StageRecord], *, waived: bool) -> list[str]:
    return [
        f"{finding.severity.value} `{finding.rule}` {finding.subject}: {finding.message}"
        + (f" ({finding.waiver})" if finding.waiver else "")
        for stage in stages
        for finding in stage.findings
        if bool(finding.waiver) is waived
    ]
