"""Where the files of one run contradict each other. Pure: facts in, problems out.

A run says most things more than once: in the record of the stage, in the summary, in the full report, in the labels of
the image, in its bytes. An edit has to change all of them, and the seal, to stay unseen here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orbit.audit.reports.report import TargetReport
from orbit.core.findings import Finding
from orbit.core.records import content_key
from orbit.release.evidence import KERNELS_FILE, Result, StageRecord
from orbit.release.gate.facts import Evidence, Problem

LABEL = "io.orbit."


def contradictions(evidence: Evidence) -> Iterator[Problem]:
    """One problem for each thing that two files say differently."""
    yield from _names(evidence)
    yield from _stages(evidence)
    yield from _labels(evidence)
    yield from _kernels(evidence)
    for stage, file, report in (
        ("audit", "audit.json", evidence.audit),
        ("image-audit", "image-audit.json", evidence.image_audit),
    ):
        if report is not None:
            yield from _audit(evidence, stage, file, report)
    yield from _smoke(evidence)


def _differ(file: str, what: str, one: object, other: object) -> Iterator[Problem]:
    """A problem when the two are not equal."""
    if one != other:
        yield Problem(file, f"{what}: {_short(one)} here, {_short(other)} there")


def _short(value: object) -> str:
    text = str(value) or "nothing"
    return text if len(text) <= 40 else f"{text[:24]}..."


def _names(evidence: Evidence) -> Iterator[Problem]:
    summary, seal, image = evidence.summary, evidence.seal, evidence.image
    if summary is not None:
        yield from _differ(
            "summary.json", "profile of the run and of the question", summary.profile, evidence.profile.name
        )
    if summary is not None and seal is not None:
        yield from _differ("evidence.json", "run, and that of the summary", seal.run, summary.run)
        yield from _differ("evidence.json", "image, and that of the summary", seal.image, summary.image_digest)
        yield from _differ("evidence.json", "profile, and that of the summary", seal.profile, summary.profile)
        yield from _differ("evidence.json", "Orbit, and that of the summary", seal.orbit_version, summary.orbit_version)
    if summary is not None and image is not None:
        yield from _differ("summary.json", "image, and the one that is there", summary.image_digest, image.digest)


def _stages(evidence: Evidence) -> Iterator[Problem]:
    """A result follows from what the record holds, and the run's result from its stages."""
    if evidence.summary is None:
        return
    names = [stage.stage for stage in evidence.summary.stages]
    if len(set(names)) != len(names):
        yield Problem("summary.json", "a stage stands in it twice")
    for stage in evidence.summary.stages:
        if stage.result is Result.PASSED and any(finding.fatal for finding in stage.findings):
            yield Problem("summary.json", f"stage {stage.stage} passed and has a finding that fails it")
        if stage.result is Result.PASSED and stage.reason:
            yield Problem("summary.json", f"stage {stage.stage} passed and says why it did not: {_short(stage.reason)}")
    failed = any(stage.result is Result.FAILED for stage in evidence.summary.stages)
    if failed is not (evidence.summary.result is Result.FAILED):
        yield Problem("summary.json", f"the run {evidence.summary.result.value}, which does not follow from its stages")


def _outputs(evidence: Evidence, name: str) -> tuple[StageRecord, dict[str, Any]] | None:
    stage = evidence.stage(name)
    return (stage, stage.outputs) if stage is not None and stage.outputs else None


def _labels(evidence: Evidence) -> Iterator[Problem]:
    """The image says what it was made from; the records say what was made."""
    if evidence.image is None:
        return
    labels = evidence.image.labels
    said: list[tuple[str, str, object]] = [("profile", "profile", evidence.profile.name)]
    if found := _outputs(evidence, "lock"):
        said.append(("lock", "lock of stage lock", found[1].get("lock")))
    if found := _outputs(evidence, "kernels"):
        said.append(("kernels", "manifests of stage kernels", found[1].get("manifest")))
    for label, what, value in said:
        yield from _differ(
            "image/index.json", f"label {LABEL}{label}, and the {what}", labels.get(LABEL + label), value
        )
    if found := _outputs(evidence, "image"):
        yield from _differ(
            "summary.json", "digest of stage image, and the image", found[1].get("digest"), evidence.digest
        )


def _kernels(evidence: Evidence) -> Iterator[Problem]:
    found = _outputs(evidence, "kernels")
    if evidence.manifests is None or found is None:
        return
    outputs = found[1]
    yield from _differ(
        KERNELS_FILE, "hash of all manifests, and the stage's", content_key(evidence.manifests), outputs.get("manifest")
    )
    built = [each for each in evidence.manifests if each.mode == "source"]
    yield from _differ(KERNELS_FILE, "wheels, and the stage's", len(built), outputs.get("wheels"))
    yield from _differ(
        KERNELS_FILE, "verified, and the stage's", len(evidence.manifests) - len(built), outputs.get("verified")
    )
    hashes = {each.dist: each.wheel_sha256 for each in built}
    yield from _differ(KERNELS_FILE, "wheels by hash, and the stage's", hashes, outputs.get("sha256"))


def _audit(evidence: Evidence, name: str, file: str, report: TargetReport) -> Iterator[Problem]:
    stage = evidence.stage(name)
    if stage is None:
        return
    yield from _differ(file, "profile, and the run's", report.profile, evidence.profile.name)
    yield from _same_findings(file, report.findings, stage)
    yield from _differ(file, "counts, and the stage's", report.counts(), stage.outputs)
    if name == "image-audit":
        yield from _differ(
            file, "image of stage image-audit, and the image", stage.inputs.get("image"), evidence.digest
        )


def _same_findings(file: str, found: tuple[Finding, ...], stage: StageRecord) -> Iterator[Problem]:
    if found != stage.findings:
        yield Problem(file, f"its findings ({len(found)}) are not those of stage {stage.stage} ({len(stage.findings)})")


def _smoke(evidence: Evidence) -> Iterator[Problem]:
    report, stage = evidence.smoke, evidence.stage("smoke")
    if report is None or stage is None:
        return
    yield from _differ("smoke.json", "profile, and the run's", report.profile, evidence.profile.name)
    yield from _differ("smoke.json", "image, and the one that is there", report.image, evidence.digest)
    yield from _differ("smoke.json", "counts, and the stage's", report.counts(), stage.outputs)
    yield from _same_findings("smoke.json", report.findings(), stage)
