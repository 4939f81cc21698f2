"""Requirements that need the image, or what it is made of, to have been used: started, computed with, built again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from orbit.image.runtime import ENVIRONMENT_LABEL
from orbit.image.smoke.report import SmokeReport, SmokeRun
from orbit.profile.model import GpuTarget
from orbit.qualify.records import Qualification
from orbit.release.attest.statement import TIMES
from orbit.release.evidence import SECOND_PREFIX_SCHEMA
from orbit.release.gate.case import Case, Judgement, Mark, listed
from orbit.release.gate.facts import CLEAN_ROOM_FILE, SECOND_PREFIX_FILE, Attested, CleanRoom
from orbit.smoke.model import FAILED, SKIPPED, CheckResult
from orbit.smoke.report import IN_PLACE

SMOKE_FILE = "smoke.json"
DEVICE_KIND = "gpu-device"
"""The check that names the GPU."""


@dataclass(frozen=True, slots=True)
class _Smoke:
    """A smoke report with where it comes from."""

    file: str
    made: Any
    """Moment, for :meth:`Case.age`."""
    report: SmokeReport


# --- CPU --------------------------------------------------------------------------------------------------------------


def smoke_cpu(case: Case) -> Iterator[Judgement]:
    """For each user, every list of the profile was run whole in a container engine, and all of it is good."""
    reports, bad = _cpu_reports(case)
    yield from bad
    if not reports:
        wrong = case.stage("smoke", file=SMOKE_FILE)
        yield wrong or case.lacking(SMOKE_FILE, "the report is not there", fix=_in_engine(case))
        return
    for uid in case.definition.uids:
        # a check that failed anywhere counts, whatever another engine says
        failed = [wrong for smoke in reports if (wrong := _failure(case, smoke, uid))]
        answers = [_cpu(case, smoke, uid) for smoke in reports]
        met = [answer for answer in answers if answer.mark is Mark.MET]
        yield (failed or met or answers)[0]


def _cpu_reports(case: Case) -> tuple[list[_Smoke], list[Judgement]]:
    """The run's own report, and signed ones of other machines."""
    reports: list[_Smoke] = []
    own, stage = case.evidence.smoke, case.evidence.stage("smoke")
    if own is not None and stage is not None:
        reports.append(_Smoke(SMOKE_FILE, own.started or stage.started, own))
    signed, bad = _signed_reports(case)
    wanted = set(case.evidence.profile.smoke)
    reports += [smoke for smoke in signed if wanted & {run.list for run in smoke.report.runs}]
    # what is no report at all is told with the GPUs, which need it
    return reports, [] if case.evidence.profile.smoke_gpu else bad


def _failure(case: Case, smoke: _Smoke, uid: int) -> Judgement | None:
    """The first list of the profile in which a check failed as that user."""
    for run in smoke.report.runs:
        bad = [result for result in run.results if result.result == FAILED]
        if run.uid == uid and run.list in case.evidence.profile.smoke and bad:
            return _failed(case, run.list, bad, f"uid {uid}", smoke.file)
    return None


def _cpu(case: Case, smoke: _Smoke, uid: int) -> Judgement:
    subject, report, policy = f"uid {uid}", smoke.report, case.definition.smoke
    if late := case.age(smoke.made, file=smoke.file, fix=_in_engine(case), subject=subject):
        return late
    if not case.evidence.profile.smoke:
        return case.missing("the profile names no smoke list", subject=subject, fix='smoke = ["cpu"] in the profile')
    for name in case.evidence.profile.smoke:
        if wrong := _list_run(case, smoke, name, uid):
            return wrong
    if report.engine not in policy.engines:
        return case.refused(
            f"ran with {report.engine or 'no engine'}, not in {' or '.join(policy.engines)}",
            subject=subject,
            file=smoke.file,
            fix=_in_engine(case),
        )
    if policy.real_ids and not report.real_ids:
        return case.refused(
            f"{report.engine} mapped user ids, so modes were not tested",
            subject=subject,
            file=smoke.file,
            fix="run the engine as root",
        )
    count = sum(len(run.results) for run in report.runs if run.uid == uid)
    return case.met(f"{count} checks in {report.engine} {report.engine_version}", subject=subject, file=smoke.file)


def _in_engine(case: Case) -> str:
    return f"start docker or podman, then: {case.ship} --engine {case.definition.smoke.engines[0]}"


def _list_run(case: Case, smoke: _Smoke, name: str, uid: int) -> Judgement | None:
    """None when that list was run whole as that user and is good."""
    subject = f"uid {uid}"
    run = next((run for run in smoke.report.runs if (run.list, run.uid) == (name, uid)), None)
    if run is None:
        said = f"list {name} was not run as uid {uid}"
        return case.missing(said, subject=subject, file=smoke.file, fix=_in_engine(case))
    there = {result.check for result in run.results}
    if lacking := [check.name for check in case.evidence.smoke_lists[name].checks if check.name not in there]:
        said = f"{name}: no result of {listed(lacking)}"
        return case.missing(said, subject=subject, file=smoke.file, fix=_in_engine(case))
    skipped = [result for result in run.results if result.result == SKIPPED]
    if left := [item.check for item in skipped if case.waiver("smoke", f"{name}/{item.check}") is None]:
        said = f"{name}: not checked: {listed(left)}"
        return case.refused(said, subject=subject, file=smoke.file, fix="run it where it can be checked, or waive it")
    return None


def _failed(case: Case, name: str, bad: list[CheckResult], subject: str, file: str) -> Judgement:
    said = f"{name}/{bad[0].check} failed: {bad[0].detail or 'no reason given'}"
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    fix = "read its output in the report (docs/smoke.md, section 'When a check fails')"
    return case.refused(said + more, subject=subject, file=file, fix=fix)


# --- GPU --------------------------------------------------------------------------------------------------------------


def smoke_gpu(case: Case) -> Iterator[Judgement]:
    """For each target, signed reports that name such a device and this image, every check of the lists passed."""
    for problem in case.evidence.problems:
        if problem.predicate == "smoke":
            yield case.problem(problem, subject=problem.file)
    reports, bad = _signed_reports(case)
    yield from bad
    wanted = set(case.evidence.profile.smoke_gpu)
    found: dict[str, list[tuple[_Smoke, SmokeRun, CheckResult]]] = {}
    for smoke in reports:
        runs = [run for run in smoke.report.runs if run.list in wanted]
        for run in runs:
            device = _device(run)
            target = _target(case, device)
            if device is None or target is None:
                yield _stray(case, smoke, device)
            else:
                found.setdefault(target.name, []).append((smoke, run, device))
    for target in case.evidence.profile.targets:
        yield _target_shown(case, target, found.get(target.name, []))


def _signed_reports(case: Case) -> tuple[list[_Smoke], list[Judgement]]:
    """Signed smoke reports about this image, and what is none."""
    reports: list[_Smoke] = []
    bad: list[Judgement] = []
    fix = "have that machine run `orbit image smoke --json` in this image and sign what it says"
    for item in case.evidence.attested("smoke"):
        try:
            report = msgspec.convert(_undated(item.content, SmokeReport), SmokeReport)
        except msgspec.ValidationError as error:
            bad.append(case.refused(f"holds no smoke report: {error}", subject=item.file, file=item.file, fix=fix))
            continue
        if report.image != case.evidence.digest or report.profile != case.evidence.profile.name:
            said = f"was run in {report.image[:19] or 'no image'} of profile {report.profile or 'unknown'}"
            bad.append(case.refused(said, subject=item.file, file=item.file, fix=fix))
            continue
        # whoever ran it without an engine said which image that was; the environment inside says it again
        if report.engine == IN_PLACE and report.environment != _environment(case):
            said = f"ran in environment {report.environment[:12] or 'unknown'}, the image has {_environment(case)[:12]}"
            bad.append(case.refused(said, subject=item.file, file=item.file, fix=fix))
            continue
        reports.append(_Smoke(item.file, item.made, report))
    return reports, bad


def _environment(case: Case) -> str:
    """Identity of the environment in the image, by its label."""
    return case.evidence.image.labels.get(ENVIRONMENT_LABEL, "") if case.evidence.image else ""


def _undated(content: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """``content`` without the moments that were added to the report when it was signed."""
    own = set(kind.__struct_fields__)
    return {key: value for key, value in content.items() if key in own or key not in TIMES}


def _device(run: SmokeRun) -> CheckResult | None:
    """The result that names the GPU."""
    return next((item for item in run.results if item.kind == DEVICE_KIND and item.facts.get("capability")), None)


def _target(case: Case, device: CheckResult | None) -> GpuTarget | None:
    capability = device.facts.get("capability") if device is not None else None
    return next((item for item in case.evidence.profile.targets if item.capability == capability), None)


def _stray(case: Case, smoke: _Smoke, device: CheckResult | None) -> Judgement:
    said = (
        "names no GPU" if device is None else f"ran on {device.facts.get('device')}, which is no target of the profile"
    )
    fix = "run it on a GPU of one of the targets, or take the file away"
    return case.refused(said, subject=smoke.file, file=smoke.file, fix=fix)


def _target_shown(case: Case, target: GpuTarget, found: list[tuple[_Smoke, SmokeRun, CheckResult]]) -> Judgement:
    profile = case.evidence.profile
    devices = " or ".join(target.devices)
    how = (
        f"on a machine with {devices}: orbit image smoke LAYOUT --gpu --json, orbit gate attest; then --evidence DIR "
        "here (docs/attest.md)"
    )
    if not found:
        return case.unproven(f"nobody signed that it ran on {devices}", subject=target.name, fix=how)
    passed: set[tuple[str, str]] = set()
    for smoke, run, _device_result in found:
        if late := case.age(smoke.made, file=smoke.file, fix=how, subject=target.name):
            return late
        if bad := [result for result in run.results if result.result == FAILED]:
            return _failed(case, run.list, bad, target.name, smoke.file)
        passed |= {(run.list, result.check) for result in run.results if result.result != SKIPPED}
    files = ", ".join(dict.fromkeys(smoke.file for smoke, _, _ in found))
    wanted = [
        (name, check.name)
        for name in profile.smoke_gpu
        for check in case.evidence.smoke_lists[name].checks
        if check.target in ("", target.name) and case.waiver("smoke", f"{name}/{check.name}") is None
    ]
    if lacking := [f"{name}/{check}" for name, check in wanted if (name, check) not in passed]:
        said = f"ran on {devices}, but without {listed(lacking)}"
        return case.unproven(said, subject=target.name, file=files, fix=how)
    names = listed(sorted({str(device.facts.get("device")) for _, _, device in found}))
    return case.met(f"{len(wanted)} checks on {names}", subject=target.name, file=files)


# --- numbers ----------------------------------------------------------------------------------------------------------


def qualification(case: Case) -> Iterator[Judgement]:
    """At least one signed record of this image passed, and none of another machine failed."""
    fix = "in the image: orbit qualify record, orbit gate attest; then --evidence DIR here (docs/qualify.md)"
    bad = [
        case.problem(item, subject=item.file) for item in case.evidence.problems if item.predicate == "qualification"
    ]
    found = case.evidence.attested("qualification")
    answers = [_qualified(case, item, fix) for item in found]
    yield from bad
    yield from answers
    if not bad and not answers:
        yield case.missing("nobody signed a record of this image", fix=fix)


def _qualified(case: Case, item: Attested, fix: str) -> Judgement:
    try:
        record = msgspec.convert(_undated(item.content, Qualification), Qualification)
    except msgspec.ValidationError as error:
        return case.refused(f"holds no record: {error}", subject=item.file, file=item.file, fix=fix)
    subject = f"{record.identity.device.name}"
    if late := case.age(item.made, file=item.file, fix=fix, subject=subject):
        return late
    if record.image != case.evidence.digest:
        said = f"was recorded in {record.image[:19] or 'no image'}"
        return case.refused(said, subject=subject, file=item.file, fix=fix)
    if record.verdict != "passed":
        lacking = listed(list(record.unproven)) or "a case failed"
        return case.refused(f"{record.verdict}: {lacking}", subject=subject, file=item.file, fix="docs/qualify.md")
    proven = record.counts.get("proven", 0)
    if not proven:
        return case.refused("no case in it is proven", subject=subject, file=item.file, fix=fix)
    said = f"{proven} cases of batch {record.definition.name}, {record.repeats} runs each"
    return case.met(said, subject=subject, file=item.file)


# --- built and unpacked elsewhere -------------------------------------------------------------------------------------


def second_prefix(case: Case) -> Iterator[Judgement]:
    """The archive of the image's environment was unpacked elsewhere, for another user, audited and started."""
    name = case.evidence.profile.name
    fix = (
        f"orbit env archive --profile {name} --output FILE, orbit env prove FILE --prefix NEW/env "
        f"--image RUN/image --output DIR/{SECOND_PREFIX_FILE}, and --evidence DIR"
    )
    bad = [
        case.problem(item, subject=item.file) for item in case.evidence.problems if item.predicate == "second-prefix"
    ]
    yield from bad
    found = [(item.file, item.content) for item in case.evidence.attested("second-prefix")]
    if case.evidence.second_prefix is not None:
        found.append((SECOND_PREFIX_FILE, case.evidence.second_prefix))
    if not found and not bad:
        yield case.lacking(SECOND_PREFIX_FILE, "nobody unpacked it", fix=fix)
    for file, content in found:
        yield _unpacked(case, file, content, fix)


def _unpacked(case: Case, file: str, content: Mapping[str, Any], fix: str) -> Judgement:
    """One proof (:class:`orbit.release.second_prefix.SecondPrefix`)."""
    if content.get("schema") != SECOND_PREFIX_SCHEMA:
        said = f"schema {content.get('schema')!r} is not known; this version of orbit reads {SECOND_PREFIX_SCHEMA}"
        return case.refused(said, file=file, fix=fix)
    if late := case.age(content.get("finished") or content.get("started"), file=file, fix=fix):
        return late
    wanted = _environment(case)
    if not wanted or content.get("environment") != wanted:
        said = f"is about environment {str(content.get('environment'))[:12]}, the image has {wanted[:12] or 'none'}"
        return case.refused(said, file=file, fix=fix)
    if content.get("image", "") not in ("", case.evidence.digest):
        return case.refused(f"is about image {str(content.get('image'))[:19]}", file=file, fix=fix)
    if content.get("result") != "passed" or content.get("findings"):
        reason = content.get("reason") or f"{len(content.get('findings') or ())} finding(s)"
        return case.refused(f"{content.get('result')}: {reason}", file=file, fix=fix)
    how = f"under {content.get('prefix')} for uid {content.get('uid')}"
    return case.met(f"unpacked {how}, audited and run with {content.get('engine', 'nothing')}", file=file)


def clean_room(case: Case) -> Iterator[Judgement]:
    """A room where nothing was known gave the same image from the same commit."""
    fix = f"orbit gate cleanroom --profile {case.evidence.profile.name}"
    bad = [case.problem(item, subject=item.file) for item in case.evidence.problems if item.predicate == "clean-room"]
    yield from bad
    answers: list[Judgement] = []
    if case.evidence.clean_room is not None:
        answers.append(_room(case, CLEAN_ROOM_FILE, case.evidence.clean_room, fix))
    for item in case.evidence.attested("clean-room"):
        try:
            answers.append(_room(case, item.file, msgspec.convert(item.content, CleanRoom), fix))
        except msgspec.ValidationError as error:
            said = f"holds no clean room: {error}"
            answers.append(case.refused(said, subject=item.file, file=item.file, fix=fix))
    yield from answers
    if not answers and not bad:
        yield case.lacking(CLEAN_ROOM_FILE, "nobody built it again from nothing", fix=fix)


def _room(case: Case, file: str, room: CleanRoom, fix: str) -> Judgement:
    if late := case.age(room.finished, file=file, fix=fix):
        return late
    seal, digest = case.evidence.seal, case.evidence.digest
    commit = seal.checkout.commit if seal else ""
    if room.candidate != digest or room.commit != commit or room.profile != case.evidence.profile.name:
        said = f"was about {room.candidate[:19]} of commit {room.commit[:12]}, this is {digest[:19]} of {commit[:12]}"
        return case.refused(said, file=file, fix=fix)
    if room.result == "failed":
        return case.refused(f"could not be built there: {room.reason}", file=file, fix=fix)
    if room.result != "same" or room.digest != digest:
        more = f": {room.reason}" if room.reason else ""
        why = "see the differences in that file; both builds must give one digest (docs/gate.md)"
        return case.refused(f"gave another image, {room.digest[:19]}{more}", file=file, fix=why)
    if room.fence not in case.definition.cleanroom.fences:
        why = f" ({room.fence_reason})" if room.fence_reason else ""
        accepted = " or ".join(case.definition.cleanroom.fences)
        return case.refused(f"its fence was {room.fence}{why}; a release needs {accepted}", file=file, fix=fix)
    hosts = f", {len(room.contacted)} hosts contacted" if room.contacted else ", no host contacted"
    refused = f", {len(room.refused)} refused" if room.refused else ""
    return case.met(f"the same digest, fence {room.fence}{hosts}{refused}", file=file)
