"""Requirements that the records of a run answer: one function each, from a case to its judgements."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

from orbit.audit.reports.report import TargetReport
from orbit.audit.rules import RULE_IDS, RULES
from orbit.core.findings import Skipped
from orbit.kernels.manifest import BuildManifest, check
from orbit.kernels.recipe import gencode_pairs
from orbit.release.evidence import KERNELS_FILE
from orbit.release.gate.case import Case, Judgement, listed
from orbit.release.sbom.write import FILES as SBOM_FILES

UNTIL = re.compile(r"\(until (\d{4}-\d{2}-\d{2})\)$")
"""The end of a finding's waiver (:mod:`orbit.audit.evaluate`)."""
MOST = 20
"""Judgements of one kind; the rest is counted."""


def evidence(case: Case) -> Iterator[Judgement]:
    """The files are whole and agree, the run passed, and it was made from one commit."""
    found = [*_problems(case), *_run(case), *_checkout(case)]
    yield from found
    if not found:
        files, seal = len(case.evidence.files), case.evidence.seal
        commit = seal.checkout.commit[:12] if seal else ""
        yield case.met(f"{files} files, hashed and held against each other; commit {commit}", file="evidence.json")


def _problems(case: Case) -> Iterator[Judgement]:
    known = {"smoke", "qualification", "clean-room", "second-prefix"}
    for problem in case.evidence.problems:
        if problem.predicate not in known:
            yield case.problem(problem, subject=problem.file)


def _run(case: Case) -> Iterator[Judgement]:
    summary = case.evidence.summary
    if summary is None:
        if not any(problem.file == "summary.json" for problem in case.evidence.problems):
            yield case.missing("there is no summary of the run", file="summary.json", fix=case.ship)
        return
    if case.evidence.image is None:
        yield case.missing("the run has no image", file="image", fix=case.ship)
    for stage in ("environment", "image"):
        if wrong := case.stage(stage):
            yield wrong
            return
    if late := case.age(summary.started, file="summary.json", fix=case.ship):
        yield late


def _checkout(case: Case) -> Iterator[Judgement]:
    seal = case.evidence.seal
    if seal is None:
        return
    checkout, file = seal.checkout, "evidence.json"
    if not checkout.commit:
        yield case.refused(
            f"belongs to no commit: {checkout.reason or 'none is named'}", file=file, fix=f"in a git clone: {case.ship}"
        )
    elif checkout.changes:
        names = listed(list(checkout.changed))
        yield case.refused(
            f"was made from a checkout with {checkout.changes} changed file(s): {names}",
            file=file,
            fix=f"commit or remove them, then: {case.ship}",
        )


def lock(case: Case) -> Iterator[Judgement]:
    """Stage lock passed lately, about the lock that lies in the checkout."""
    file = "01-lock.json"
    if wrong := case.stage("lock", file=file):
        yield wrong
        return
    stage = case.evidence.stage("lock")
    outputs = stage.outputs if stage else {}
    judged, here = str(outputs.get("lock", "")), case.evidence.lock_sha256
    if judged != here:
        yield case.refused(
            f"the run's lock is {judged[:12] or 'not named'}, the one in the checkout is {here[:12]}",
            file=file,
            fix=f"check out the commit of the run, or: {case.ship}",
        )
        return
    yield case.met(f"{outputs.get('packages')} packages, lock {here[:12]}", file=file)


def kernels(case: Case) -> Iterator[Judgement]:
    """Each recipe of the profile has a manifest that agrees with itself, the recipe and the profile."""
    if wrong := case.stage("kernels"):
        yield wrong
        return
    manifests, profile = case.evidence.manifests, case.evidence.profile
    if manifests is None:
        yield case.lacking(KERNELS_FILE, "the run has no manifests of its kernels")
        return
    stage = case.evidence.stage("kernels")
    found = list(case.left_out("kernels", stage.skipped if stage else (), KERNELS_FILE))
    known = {manifest.recipe for manifest in manifests}
    found += [
        case.missing("has no manifest", subject=name, file=KERNELS_FILE, fix=case.ship)
        for name in profile.kernels.core
        if name not in known
    ]
    for manifest in manifests:
        found += _manifest(case, manifest)
    yield from found
    if not found:
        built = sum(manifest.mode == "source" for manifest in manifests)
        archs = ", ".join(profile.target_archs())
        yield case.met(f"{built} built and {len(manifests) - built} verified for {archs}", file=KERNELS_FILE)


def _manifest(case: Case, manifest: BuildManifest) -> Iterator[Judgement]:
    recipe = case.evidence.recipes.get(manifest.recipe)
    if recipe is None or recipe.mode != manifest.mode:
        what = (
            "no recipe of the profile" if recipe is None else f"built as {manifest.mode}, the recipe says {recipe.mode}"
        )
        yield case.refused(what, subject=manifest.recipe, file=KERNELS_FILE, fix=case.ship)
        return
    if manifest.mode != "source":
        if manifest.verified is None or (manifest.mode == "jit" and manifest.jit is None):
            yield case.refused("was not verified", subject=manifest.recipe, file=KERNELS_FILE, fix=case.ship)
        return
    wanted = tuple(f"{virtual}:{real}" for virtual, real in gencode_pairs(case.evidence.profile))
    if manifest.requested != wanted:
        what = f"was requested for {' '.join(manifest.requested)}, the profile wants {' '.join(wanted)}"
        yield case.refused(what, subject=manifest.recipe, file=KERNELS_FILE, fix=case.ship)
    for finding in check(manifest, recipe):
        said = f"{finding.rule}: {finding.message}"
        yield case.refused(said, subject=manifest.recipe, file=KERNELS_FILE, fix=finding.fix)


def audit(case: Case) -> Iterator[Judgement]:
    """The environment was audited, for every user, without a finding."""
    yield from _audited(case, "audit", "environment", case.evidence.audit)


def image_audit(case: Case) -> Iterator[Judgement]:
    """The image was audited, for every user, without a finding."""
    yield from _audited(case, "image-audit", "image", case.evidence.image_audit)


def _audited(case: Case, stage: str, kind: str, report: TargetReport | None) -> Iterator[Judgement]:
    file = f"{stage}.json"
    if wrong := case.stage(stage, file=file):
        yield wrong
        return
    if report is None:
        yield case.lacking(file, "the report is not there")
        return
    found = list(case.left_out(stage, owed(report), file))
    if lost := sorted(RULE_IDS - {*report.rules, *(part.what for part in report.skipped)}):
        found.append(case.refused(f"rules it does not speak of: {listed(lost)}", file=file, fix=case.ship))
    if report.kind != kind:
        found.append(case.refused(f"is about {report.kind}, not {kind}", file=file, fix=case.ship))
    if not report.rules or not report.facts.get("files"):
        found.append(case.refused("looked at nothing: no file, or no rule", file=file, fix=case.ship))
    fatal = [finding for finding in report.findings if finding.fatal]
    found += [
        case.refused(f"{finding.rule}: {finding.message}", subject=finding.subject, file=file, fix=finding.fix)
        for finding in fatal[:MOST]
    ]
    yield from found
    if found:
        return
    for uid in case.definition.uids:
        yield _for_user(case, report, uid, file)


def owed(report: TargetReport) -> tuple[Skipped, ...]:
    """What was left out though it could have been judged: rules about other kinds of target are none of it."""
    return tuple(part for part in report.skipped if part.what not in RULES or report.kind in RULES[part.what].kinds)


def _for_user(case: Case, report: TargetReport, uid: int, file: str) -> Judgement:
    """Whether the report speaks for a user. Root may read whatever another user may."""
    subject = f"uid {uid}"
    if report.uid == uid:
        return case.met(
            f"{len(report.rules)} rules over {report.facts['files']} files: clean", subject=subject, file=file
        )
    if uid == 0:
        return case.met(f"clean for uid {report.uid}, who may do less", subject=subject, file=file)
    return case.missing(
        f"the report judges access for uid {report.uid}",
        subject=subject,
        file=file,
        fix=f"audit for that user (orbit audit --uid {uid}), or correct uids in ci/gate.toml",
    )


def sbom(case: Case) -> Iterator[Judgement]:
    """Both documents, about this image, with equal counts that are those of the stage."""
    if wrong := case.stage("sbom"):
        yield wrong
        return
    sboms = case.evidence.sboms
    there = {item.format for item in sboms}
    found = [
        case.lacking(name, f"no bill of materials in {form}") for form, name in SBOM_FILES.items() if form not in there
    ]
    for item in sboms:
        if item.digest != case.evidence.digest:
            said = f"is about {item.digest[:19]}, the image is {case.evidence.digest[:19] or 'not there'}"
            found.append(case.refused(said, file=item.file, fix=case.ship))
    stage = case.evidence.stage("sbom")
    counted = stage.outputs.get("components") if stage else None
    wanted = sum(counted.values()) if isinstance(counted, dict) else 0
    counts = {item.file: item.components for item in sboms} | {"the stage": wanted}
    if len(set(counts.values())) != 1 or not wanted:
        said = ", ".join(f"{name} {count}" for name, count in counts.items())
        found.append(case.refused(f"components do not agree: {said}", file=SBOM_FILES["cyclonedx"], fix=case.ship))
    yield from found
    if not found:
        yield case.met(f"{wanted} components in both formats", file=SBOM_FILES["cyclonedx"])


def waivers(case: Case) -> Iterator[Judgement]:
    """Nothing is accepted past its date, or for too long."""
    ends = dict(_accepted(case))
    last = case.today + dt.timedelta(days=case.definition.waivers.max_days)
    found = []
    for what, end in ends.items():
        if end is None:
            found.append(case.refused("is waived without an end", subject=what, fix="give the waiver an expiry"))
        elif end < case.today:
            found.append(case.refused(f"was accepted until {end}", subject=what, fix="decide anew, or mend it"))
        elif end > last:
            most = case.definition.waivers.max_days
            said = f"is accepted until {end}, more than {most} days ahead"
            found.append(case.refused(said, subject=what, fix=f"at most until {last}"))
    yield from found[:MOST]
    if len(found) > MOST:
        yield case.refused(f"{len(found) - MOST} more waivers do not hold", fix="see the reports of the audit")
    if not found:
        first = min((end for end in ends.values() if end is not None), default=None)
        yield case.met(f"{len(ends)} in force, the first ends {first}" if first else "nothing is waived")


def _accepted(case: Case) -> Iterator[tuple[str, dt.date | None]]:
    """(what, until when) of everything that was found or left out and is accepted."""
    summary = case.evidence.summary
    stages = summary.stages if summary else ()
    findings = [finding for stage in stages for finding in stage.findings]
    for report in (case.evidence.audit, case.evidence.image_audit):
        findings += report.findings if report else ()
    for finding in findings:
        if finding.waiver:
            yield f"{finding.rule} {finding.subject}", _end(finding.waiver)
    parts = [(stage.stage, part.what) for stage in stages for part in stage.skipped]
    for name, report in (("audit", case.evidence.audit), ("image-audit", case.evidence.image_audit)):
        parts += [(name, part.what) for part in owed(report)] if report else []
    for name, what in parts:
        if (waiver := case.waiver(name, what)) is not None:
            yield f"{name}: {what}", waiver.expires


def _end(waiver: str) -> dt.date | None:
    found = UNTIL.search(waiver)
    try:
        return dt.date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def documents(case: Case) -> Iterator[Judgement]:
    """Pages were checked now, and are true."""
    checked = case.evidence.documents
    if checked is None:
        yield case.missing("the pages were not checked", fix="run the gate in the checkout of the run's commit")
        return
    for finding in checked.findings[:MOST]:
        yield case.refused(finding.message, subject=finding.subject, file=finding.subject, fix=finding.fix)
    if len(checked.findings) > MOST:
        yield case.refused(f"{len(checked.findings) - MOST} more places are not true", fix="see --json")
    empty = [name for name, count in checked.checked.items() if not count]
    if empty:
        yield case.refused(f"nothing was looked at: {', '.join(empty)}", fix="run the gate in a whole checkout")
    elif not checked.findings:
        yield case.met(", ".join(f"{count} {name}" for name, count in checked.checked.items()))
