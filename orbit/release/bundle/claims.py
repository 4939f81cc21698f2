"""What a release claims, judged one by one from the files of its bundle. Each function gives claims and raises nothing.

The files are those that were signed (:mod:`orbit.release.bundle.integrity` said so); here they are held against each
other, against the gate's own rules, and against today's date.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from orbit.audit.reports.report import TargetReport
from orbit.core.records import convert
from orbit.errors import MissingError, OrbitError
from orbit.profile.model import Profile
from orbit.profile.place import lock_name
from orbit.release.attest.statement import COVERAGE as COVERAGE_TYPE
from orbit.release.attest.statement import PROVENANCE as PROVENANCE_TYPE
from orbit.release.attest.statement import parse_time
from orbit.release.attest.trust import Cause, NotBelieved, Trust, Verified, verify
from orbit.release.bundle import facts
from orbit.release.bundle.again import Again
from orbit.release.bundle.facts import Files
from orbit.release.bundle.integrity import AGAIN, Signed, shortened
from orbit.release.bundle.model import (
    COVERAGE,
    EVIDENCE,
    IMAGE_AUDIT,
    INDEX,
    LOCK,
    MANIFEST,
    PAGE,
    PROVENANCE,
    RUN,
    ImageReference,
    sha256,
)
from orbit.release.bundle.report import Claim, State
from orbit.release.bundle.targets import headline, targets_of
from orbit.release.coverage import STAGE as AUDIT_STAGE
from orbit.release.coverage import make_coverage, summary_lines
from orbit.release.gate.decide import Decision
from orbit.release.gate.model import MAY_BE_UNPROVEN, NAMES
from orbit.release.provenance import Provenance, stage_of

LABEL = "io.orbit."
CLOCK = "set the clock that is wrong (timedatectl); if it is right, ask the publisher"


@dataclass(frozen=True, slots=True)
class Case:
    """A bundle whose files are those that were signed."""

    files: Files
    signed: Signed
    profile: Profile
    image: ImageReference
    again: Again
    trust: Trust
    now: dt.datetime

    @property
    def decision(self) -> Decision:
        """As it was signed."""
        return self.signed.predicate.decision

    @property
    def moment(self) -> dt.datetime:
        """Now; for a clock that is behind, the moment of the decision."""
        return max(self.now, parse_time(self.decision.decided, "decided"))


def guarded(name: str, text: str, judge: Callable[[], tuple[list[str], str]], *files: str) -> Claim:
    """The claim ``name``. ``judge`` gives (what speaks against it, what showed it); an unreadable file speaks, too."""
    try:
        wrong, shown = judge()
    except OrbitError as error:
        wrong, shown = [error.what], ""
    if wrong:
        return Claim(name=name, text=text, state=State.CONTRADICTED, why=shortened(wrong), fix=AGAIN, files=files)
    return Claim(name=name, text=text, state=State.PROVEN, why=shown, files=files)


def unequal(what: str, one: object, other: object) -> list[str]:
    """A sentence when the two are not equal; else nothing."""
    return [] if one == other else [f"{what}: {_short(one)}, and {_short(other)}"]


def _short(value: object) -> str:
    text = str(value) or "nothing"
    return text if len(text) <= 80 else f"{text[:77]}..."


# --- what the bundle says of itself -----------------------------------------------------------------------------------


def judge_index(case: Case) -> Claim:
    """``bundle.json`` and the first line of ``RELEASE.md`` follow from the image, the profile and the decision."""
    index, decision = case.signed.index, case.decision

    def judge() -> tuple[list[str], str]:
        wrong = unequal("image, by bundle.json and by its manifest", index.image, case.image)
        wrong += unequal("image, by the signature and by its manifest", case.signed.digest, case.image.digest)
        wrong += unequal("profile, by bundle.json and profile.toml", index.profile, case.profile.name)
        wrong += unequal("commit, by bundle.json and the decision", index.commit, decision.commit)
        wrong += unequal("version, by bundle.json and the decision", index.version, decision.orbit_version)
        wrong += unequal("date, by bundle.json and the decision", index.created, decision.decided)
        if index.targets != targets_of(decision, case.profile):
            wrong.append("bundle.json says something else of the targets than the decision")
        first = case.files[PAGE].partition(b"\n")[0].decode(errors="replace")
        wrong += unequal(f"first line of {PAGE}", first, headline(index.image.name, index.version, index.targets))
        return wrong, f"image, commit, date and {len(index.targets)} targets agree"

    return guarded("bundle.json", "what the bundle says of itself follows from what is in it", judge, INDEX, PAGE)


def judge_documents(case: Case) -> Claim:
    """The image's own documents: by them lock, profile and kernels are those of the image."""

    def judge() -> tuple[list[str], str]:
        labels = facts.labels_of(case.files)
        wanted = {
            "lock": sha256(case.files[LOCK]),
            "profile": case.profile.name,
            "kernels": facts.kernels_of(case.files).hash,
            "targets": " ".join(f"{target.name}={target.feature}" for target in case.profile.targets),
        }
        wrong = [
            line
            for key, value in wanted.items()
            for line in unequal(f"label {LABEL}{key}, and the file", labels.get(LABEL + key), value)
        ]
        return (
            wrong,
            f"lock, profile, kernels and targets are those that the image's labels name; {case.image.layers} layers",
        )

    return guarded("image-documents", "the image says itself that it was made from these files", judge, MANIFEST, LOCK)


def judge_decision(case: Case) -> Claim:
    """The decision is complete, is about this image, and names the files that are here."""
    decision = case.decision

    def judge() -> tuple[list[str], str]:
        wrong = [] if decision.release else ["it says that this is no release"]
        wrong += unequal("image", decision.digest, case.image.digest)
        wrong += unequal("profile", decision.profile, case.profile.name)
        wrong += unequal("lock", decision.lock, sha256(case.files[LOCK]))
        wrong += unequal("moment, and that of the signature", decision.decided, case.signed.predicate.decided)
        judged = {item.requirement for item in decision.judgements}
        wrong += [f"{name} was not judged" for name in NAMES if name not in judged]
        wrong += [f"{item.requirement} is {item.mark.value}: {item.reason}" for item in decision.refusals]
        wrong += [
            f"{item.requirement} is unproven, which no release may leave so"
            for item in decision.unproven
            if item.requirement not in MAY_BE_UNPROVEN
        ]
        wrong += _other_evidence(case)
        return wrong, f"{len(NAMES)} requirements judged, over {len(decision.evidence)} files that are the ones here"

    return guarded("decision", "the gate decided that this is a release, from these files", judge)


def _other_evidence(case: Case) -> list[str]:
    """Files the decision was made from that are not those in the bundle."""
    wrong = []
    for name, digest in case.decision.evidence.items():
        places = [path for path in (RUN + name, EVIDENCE + name) if path in case.files]
        if not places:
            wrong.append(f"it was made from {name}, which is not here")
        elif digest not in (sha256(case.files[path]) for path in places):
            wrong.append(f"it was made from another {name} than is here")
    return wrong


def judge_subjects(case: Case) -> Claim:
    """Every statement in the bundle is about this image."""
    paths = (PROVENANCE, COVERAGE, *facts.evidence_paths(case.files))

    def judge() -> tuple[list[str], str]:
        wrong = []
        for path in paths:
            digest = facts.statement_of(case.files, path).image_digest
            if digest != case.image.digest:
                wrong.append(f"{path} is about {digest}")
        return wrong, f"{len(paths) + 1} signed statements, all about {case.image.digest}"

    return guarded("statements", "every signed statement is about this image", judge, *paths)


# --- provenance and coverage ------------------------------------------------------------------------------------------


def judge_provenance(case: Case) -> Claim:
    """Where the image came from: the commit, this lock, these kernels, these records."""

    def judge() -> tuple[list[str], str]:
        statement = facts.statement_of(case.files, PROVENANCE)
        wrong = unequal("kind", statement.predicate_type, PROVENANCE_TYPE) + _signature(case, PROVENANCE)
        if wrong:
            return wrong, ""
        found = convert(statement.predicate, Provenance, PROVENANCE)
        build, lock = found.build_definition, case.files[LOCK].decode(errors="replace")
        outside, name = build.external_parameters, lock_name(case.profile)
        wrong = unequal("profile", outside.profile, case.profile.name)
        wrong += unequal("commit", outside.source.digest.get("gitCommit", ""), case.decision.commit)
        locks = [item.digest.get("sha256") for item in build.resolved_dependencies if item.name == name]
        wrong += unequal("lock", locks, [sha256(case.files[LOCK])])
        built = {item.wheel: item.wheel_sha256 for item in facts.kernels_of(case.files).manifests}
        named = {item.name: item.digest.get("sha256", "") for item in build.resolved_dependencies}
        wrong += [
            f"kernel {wheel}: another wheel than its manifest names"
            for wheel in built
            if named.get(wheel) != built[wheel]
        ]
        wheels = [name for name in named if name.endswith(".whl") and name not in built]
        wrong += [f"{name} is not in the lock" for name in wheels if f"sha256:{named[name]}" not in lock]
        for item in found.run_details.byproducts:
            if RUN + item.name not in case.files or sha256(case.files[RUN + item.name]) != item.digest.get("sha256"):
                wrong.append(f"{item.name} is not the one it names")
        return wrong, (
            f"commit {case.decision.commit[:12]}; wheels of this lock: {len(wheels)}, kernels: {len(built)}, "
            f"records of the run: {len(found.run_details.byproducts)}"
        )

    return guarded("provenance", "the image was made from this commit, this lock and these kernels", judge, PROVENANCE)


def judge_coverage(case: Case) -> Claim:
    """The coverage that is signed is what the audit report says: made again, it is equal."""

    def judge() -> tuple[list[str], str]:
        statement = facts.statement_of(case.files, COVERAGE)
        wrong = unequal("kind", statement.predicate_type, COVERAGE_TYPE) + _signature(case, COVERAGE)
        if wrong:
            return wrong, ""
        summary = facts.summary_of(case.files)
        made = make_coverage(
            case.profile,
            facts.record(case.files, IMAGE_AUDIT, TargetReport),
            facts.kernels_of(case.files).manifests,
            report_sha256=sha256(case.files[IMAGE_AUDIT]),
            orbit_version=summary.orbit_version,
            made=stage_of(summary.stages, AUDIT_STAGE).started,
        )
        if _plain(made) != _plain(statement.predicate):
            return [f"does not follow from {IMAGE_AUDIT} and the profile"], ""
        return [], "; ".join(summary_lines(made))

    return guarded(
        "gpu-arch-coverage", "every GPU finds its code, but for what is declared", judge, COVERAGE, IMAGE_AUDIT
    )


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value, order="sorted"))


def _signature(case: Case, path: str) -> list[str]:
    """What is wrong with the signature of a statement that was signed with the release; nothing without a key."""
    if not case.trust.signers:
        return []
    statement = facts.statement_of(case.files, path)
    try:
        believed(case, path, statement.predicate_type)
    except NotBelieved as error:
        return [] if error.cause is Cause.MAY_NOT_SIGN else [error.what]
    except MissingError:
        return []  # told with the signature of the release, which covers this file
    return []


def believed(case: Case, path: str, kind: str) -> Verified:
    """A statement of the bundle that somebody the user trusts signed; raises as :func:`verify` does."""
    return verify(
        facts.envelope_of(case.files, path),
        case.trust,
        predicate_type=kind,
        subject_digest=case.image.digest,
        now=case.moment,
        where=path,
    )


# --- dates ------------------------------------------------------------------------------------------------------------


def judge_dates(case: Case) -> Claim:
    """Nothing is of the future: neither for this machine's clock nor, what was evidence, for the decision."""
    tolerance = dt.timedelta(seconds=case.trust.clock_tolerance_s)

    def judge() -> tuple[list[str], str]:
        decided = parse_time(case.decision.decided, "decided")
        wrong = []
        if decided > case.now + tolerance:
            wrong.append(f"decided {decided:%Y-%m-%d %H:%M} UTC, and it is {case.now:%Y-%m-%d %H:%M} here")
        wrong += [
            f"{item.file} is of {item.made:%Y-%m-%d %H:%M} UTC, after the decision"
            for item in case.again.evidence.attestations
            if item.made is not None and item.made > decided + tolerance
        ]
        days = max(0, (case.now - decided).days)
        return wrong, f"decided {decided:%Y-%m-%d %H:%M} UTC, {days} days ago by the clock of this machine"

    claim = guarded("dates", "everything was made before it was used", judge)
    return msgspec.structs.replace(claim, fix=CLOCK) if claim.state is State.CONTRADICTED else claim


def unreadable(why: str) -> Claim:
    """The claim when profile, definition or image cannot be read, so that nothing follows."""
    return Claim(name="contents", text="the files can be read", state=State.CONTRADICTED, why=why, fix=AGAIN)
