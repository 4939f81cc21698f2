"""What the gate knows when it decides: frozen, read from files, checked against each other, and nothing else."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orbit.audit.reports.report import TargetReport
from orbit.core.findings import Finding
from orbit.core.records import Record
from orbit.image.smoke.report import SmokeReport
from orbit.kernels.manifest import BuildManifest
from orbit.kernels.recipe import Recipe
from orbit.profile.model import Profile
from orbit.release.evidence import StageRecord, Summary
from orbit.release.seal import Seal
from orbit.smoke.model import SmokeList

CLEAN_ROOM_SCHEMA = "orbit.clean-room/1"
CLEAN_ROOM_FILE = "clean-room.json"
SECOND_PREFIX_FILE = "second-prefix.json"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file is no evidence."""

    file: str
    """Path in the run's folder, or the attestation's name."""
    what: str
    fix: str = "run `./orbitw ship` again: evidence that was changed afterwards is none"
    predicate: str = ""
    """Short name of what an attestation would have shown; empty for a file of the run."""
    absent: bool = False
    """The file is not there at all."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What the image's own documents say."""

    digest: str
    labels: Mapping[str, str]
    layers: int
    pull_bytes: int


@dataclass(frozen=True, slots=True)
class SbomFacts:
    """One bill of materials."""

    format: str
    file: str
    digest: str
    """Of the image it is about."""
    components: int


@dataclass(frozen=True, slots=True)
class Attested:
    """A statement whose signature is good, of somebody who may say so."""

    file: str
    predicate: str
    """Short name: ``smoke``, ``qualification``, ..."""
    digest: str
    """Of the image it is about, ``sha256:...``."""
    signer: str
    made: dt.datetime | None
    """When, by the latest moment that it states; None when it states none."""
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Documents:
    """Whether pages are true: what was looked at, and what is not."""

    checked: Mapping[str, int]
    findings: tuple[Finding, ...]


class CleanRoom(Record, frozen=True, kw_only=True):
    """``clean-room.json``: what came of building everything again from nothing. Also a predicate for an attestation."""

    schema: str = CLEAN_ROOM_SCHEMA
    profile: str
    commit: str
    candidate: str
    """Digest of the image that was to be had again."""
    digest: str
    """Digest of the image that was built; empty when none was."""
    tier: str
    """Tier of recipes, ``core`` or ``all``."""
    result: str
    """``same``, ``different`` or ``failed``."""
    reason: str = ""
    """Why it failed; where images differ, the difference in a sentence."""
    differences: tuple[str, ...] = ()
    """Where images differ: layers, files and parts of files, a line each."""
    fence: str
    """``namespace``: nothing could be reached but the declared hosts; ``proxy``: programs were told to use the proxy
    that lets only these through, and nothing held them to it; ``none``."""
    fence_reason: str = ""
    """Why it was no namespace."""
    contacted: dict[str, int] = {}
    """Hosts that were reached, with the number of connections."""
    refused: dict[str, int] = {}
    """Hosts that were asked for and are not declared."""
    environment: tuple[str, ...] = ()
    """Variables of the caller that were passed on."""
    run_evidence: str = ""
    """sha256 of the seal of the run in the room."""
    started: str
    finished: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was found. What is None was not there, or is in ``problems``."""

    profile: Profile
    folder: str
    """The run's folder, as it was given."""
    lock_sha256: str
    """Of the profile's lock in the checkout, now."""
    recipes: Mapping[str, Recipe]
    smoke_lists: Mapping[str, SmokeList]
    """Every list the profile names."""
    problems: tuple[Problem, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """sha256 of everything that was read, by path."""
    seal: Seal | None = None
    summary: Summary | None = None
    image: ImageFacts | None = None
    manifests: tuple[BuildManifest, ...] | None = None
    audit: TargetReport | None = None
    image_audit: TargetReport | None = None
    smoke: SmokeReport | None = None
    sboms: tuple[SbomFacts, ...] = ()
    clean_room: CleanRoom | None = None
    second_prefix: Mapping[str, Any] | None = None
    attestations: tuple[Attested, ...] = ()
    documents: Documents | None = None

    def stage(self, name: str) -> StageRecord | None:
        """The record of a stage; None when there is none."""
        stages = self.summary.stages if self.summary else ()
        return next((stage for stage in stages if stage.stage == name), None)

    @property
    def digest(self) -> str:
        """Of the image, by its own bytes; empty without one."""
        return self.image.digest if self.image else ""

    def attested(self, predicate: str) -> tuple[Attested, ...]:
        """The attestations of one kind."""
        return tuple(item for item in self.attestations if item.predicate == predicate)
