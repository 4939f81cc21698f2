"""The decision: evidence, a definition and a moment in; whether this is a release out. Pure, and the only place.

A requirement is a function from a case to its judgements, in the table :data:`REQUIREMENTS`. One that says nothing has
not been shown: silence is a refusal like any other.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping

import msgspec

from orbit import __version__
from orbit.core.records import Record
from orbit.release.gate import proofs, records
from orbit.release.gate.case import Case, Judgement, Mark
from orbit.release.gate.facts import Evidence
from orbit.release.gate.model import NAMES, Definition

SCHEMA = "orbit.decision/1"
REQUIREMENTS: Mapping[str, Callable[[Case], Iterator[Judgement]]] = {
    "evidence": records.evidence,
    "lock": records.lock,
    "kernels": records.kernels,
    "audit": records.audit,
    "image-audit": records.image_audit,
    "sbom": records.sbom,
    "smoke-cpu": proofs.smoke_cpu,
    "smoke-gpu": proofs.smoke_gpu,
    "qualification": proofs.qualification,
    "second-prefix": proofs.second_prefix,
    "clean-room": proofs.clean_room,
    "waivers": records.waivers,
    "documents": records.documents,
}
"""One function for each of :data:`orbit.release.gate.model.NAMES`."""


class Decision(Record, frozen=True, kw_only=True):
    """Whether an image is a release, and why. What the bundle signs."""

    schema: str = SCHEMA
    profile: str
    image: str
    """Repository name of the image."""
    digest: str
    """Of the image manifest; empty when there is no image."""
    commit: str
    lock: str
    """sha256 of the lock."""
    orbit_version: str
    run: str
    decided: str
    """UTC, ISO 8601."""
    release: bool
    judgements: tuple[Judgement, ...]
    """In the order of the requirements; several for one that has parts."""
    evidence: dict[str, str]
    """sha256 of every file that was read."""

    @property
    def refusals(self) -> tuple[Judgement, ...]:
        """What keeps it from being a release."""
        return tuple(item for item in self.judgements if item.mark in (Mark.MISSING, Mark.REFUSED))

    @property
    def unproven(self) -> tuple[Judgement, ...]:
        """What nobody showed, and what a release says of itself."""
        return tuple(item for item in self.judgements if item.mark is Mark.UNPROVEN)

    def mark(self, requirement: str) -> Mark:
        """The worst mark of a requirement."""
        order = list(Mark)
        found = [item.mark for item in self.judgements if item.requirement == requirement]
        return max(found, key=order.index)


def decide(evidence: Evidence, definition: Definition, now: dt.datetime) -> Decision:
    """Judge every requirement. A release is what has an image, and no requirement that is missing or refused."""
    judgements = tuple(judgement for name in NAMES for judgement in _judge(name, evidence, definition, now))
    seal, summary = evidence.seal, evidence.summary
    shown = all(item.mark in (Mark.MET, Mark.UNPROVEN) for item in judgements)
    return Decision(
        profile=evidence.profile.name,
        image=evidence.profile.image.name,
        digest=evidence.digest,
        commit=seal.checkout.commit if seal else "",
        lock=evidence.lock_sha256,
        orbit_version=__version__,
        run=summary.run if summary else "",
        decided=now.astimezone(dt.UTC).replace(microsecond=0).isoformat(),
        release=shown and bool(evidence.digest),
        judgements=judgements,
        evidence=dict(sorted(evidence.files.items())),
    )


def _judge(name: str, evidence: Evidence, definition: Definition, now: dt.datetime) -> Iterator[Judgement]:
    requirement = definition.requirement(name)
    case = Case(requirement, evidence, definition, now)
    found = list(REQUIREMENTS[name](case))
    if not found:
        found = [case.missing("nothing was judged", fix="this is a defect of the gate")]
    for judgement in found:
        if judgement.mark is Mark.UNPROVEN and not requirement.unproven:
            yield msgspec.structs.replace(judgement, mark=Mark.MISSING)
        else:
            yield judgement
