"""The decision made again, from nothing but the files of a bundle: the gate's own rules over the same evidence.

What was there when it was made first and is missing here: the layers of the image (the manifest, which is here, names
their digests) and the pages of the checkout. What is judged by a date is judged as on the day of the decision.
"""

from __future__ import annotations

import datetime as dt
import functools
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orbit import __version__
from orbit.audit.reports.report import TargetReport
from orbit.core.records import convert, parse_toml
from orbit.errors import InputError, MissingError, OrbitError
from orbit.image.smoke.report import SmokeReport
from orbit.kernels.recipe import Recipe
from orbit.release.attest.keys import parse_public
from orbit.release.attest.sigstore_library import Identity
from orbit.release.attest.statement import PREDICATES, parse_time
from orbit.release.attest.trust import SHORT, Believed, Trust, TrustRule, verify
from orbit.release.bundle import facts
from orbit.release.bundle.facts import Files
from orbit.release.bundle.model import AUDIT, DEFINITION, EVIDENCE, GATE, IMAGE_AUDIT, KEYS, LOCK, RUN, SMOKE, sha256
from orbit.release.evidence import Summary
from orbit.release.gate.contradict import contradictions
from orbit.release.gate.decide import Decision, decide
from orbit.release.gate.facts import (
    CLEAN_ROOM_FILE,
    SECOND_PREFIX_FILE,
    Attested,
    CleanRoom,
    Evidence,
    ImageFacts,
    Problem,
    SbomFacts,
)
from orbit.release.gate.model import NAMES, Definition
from orbit.release.gate.sboms import parse_sbom
from orbit.release.sbom.write import FILES as SBOM_FILES
from orbit.release.seal import SEAL, Seal, differences, keyed
from orbit.smoke.model import SmokeList, parse_list


class OtherVersion(InputError):
    """The bundle is of a version of Orbit whose rules this one does not have."""


@dataclass(slots=True)
class _Reading:
    """The files, and what is wrong with them so far."""

    files: Files
    problems: list[Problem] = field(default_factory=list)

    def run[T](self, name: str, kind: type[T]) -> T | None:
        """A JSON file of the run; None when it is not there or is none."""
        if RUN + name not in self.files:
            return None
        return self.guarded(name, lambda: facts.record(self.files, RUN + name, kind))

    def guarded[T](self, name: str, read: Callable[[], T]) -> T | None:
        """What ``read`` returns; None, and a problem of the file, when it raises."""
        try:
            return read()
        except OrbitError as error:
            self.problems.append(Problem(name, error.what, error.fix))
            return None


@dataclass(frozen=True, slots=True)
class Again:
    """The decision made again, and from what."""

    definition: Definition
    evidence: Evidence
    decision: Decision
    unchecked: dict[str, str]
    """Kind of statement (short name) that could not be judged here -> why."""


def decide_again(files: Files, decided: str) -> Again:
    """Decide at the moment ``decided`` from the files of a bundle.

    Raises :class:`InputError` when profile, definition or image cannot be read at all, and :class:`OtherVersion` when
    this version of Orbit asks for other things.
    """
    now = parse_time(decided, "decided")
    definition = convert(parse_toml(facts.content(files, GATE), Path(GATE)), Definition, GATE)
    if {item.name for item in definition.requirements} != set(NAMES):
        raise OtherVersion(
            f"{GATE}: this release was decided by other requirements than orbit {__version__} knows",
            fix="verify it with the version of Orbit that made it: bundle.json names it",
        )
    evidence, unchecked = _evidence(files, definition, now)
    return Again(definition, evidence, decide(evidence, definition, now), unchecked)


def _evidence(files: Files, definition: Definition, now: dt.datetime) -> tuple[Evidence, dict[str, str]]:
    profile = facts.profile_of(files)
    image = facts.image_of(files, profile.image.name)
    reading = _Reading(files)
    manifests = reading.guarded("kernels.json", lambda: facts.kernels_of(files).manifests)
    seal = reading.guarded(SEAL, lambda: facts.seal_of(files))
    evidence = Evidence(
        profile=profile,
        folder=RUN,
        lock_sha256=sha256(facts.content(files, LOCK)),
        recipes=_recipes(files),
        smoke_lists=_smoke_lists(files),
        files={path: sha256(data) for path, data in files.items() if path.startswith((RUN, EVIDENCE))},
        seal=seal,
        summary=reading.run("summary.json", Summary),
        image=ImageFacts(
            digest=image.digest, labels=facts.labels_of(files), layers=image.layers, pull_bytes=image.pull_bytes
        ),
        manifests=manifests,
        audit=reading.run(AUDIT.removeprefix(RUN), TargetReport),
        image_audit=reading.run(IMAGE_AUDIT.removeprefix(RUN), TargetReport),
        smoke=reading.run(SMOKE.removeprefix(RUN), SmokeReport),
        sboms=tuple(_sboms(reading)),
        clean_room=reading.run(CLEAN_ROOM_FILE, CleanRoom),
        second_prefix=reading.run(SECOND_PREFIX_FILE, dict[str, Any]),
    )
    unchecked: dict[str, str] = {}
    trust = _trust(reading, definition)
    attested = tuple(_attested(reading, trust, image.digest, now, unchecked))
    if seal is not None:
        reading.problems += _sealed(files, seal)
    evidence = replace(evidence, attestations=attested)
    return replace(evidence, problems=(*reading.problems, *contradictions(evidence))), unchecked


def _recipes(files: Files) -> dict[str, Recipe]:
    found = {}
    for path, name in _definitions(files, "recipes/"):
        found[name] = convert(parse_toml(files[path], Path(path)), Recipe, path)
    return found


def _smoke_lists(files: Files) -> dict[str, SmokeList]:
    return {name: parse_list(parse_toml(files[path], Path(path)), path) for path, name in _definitions(files, "smoke/")}


def _definitions(files: Files, kind: str) -> Iterator[tuple[str, str]]:
    start = DEFINITION + kind
    for path in sorted(files):
        if path.startswith(start):
            yield path, path.removeprefix(start).removesuffix(".toml")


def _sealed(files: Files, seal: Seal) -> Iterator[Problem]:
    """What is not as the run was sealed."""
    if seal.key != keyed(seal).key:
        yield Problem(SEAL, "was edited: it does not have the key of its own content", facts.AGAIN)
    found = {
        path.removeprefix(RUN): sha256(data)
        for path, data in files.items()
        if path.startswith(RUN) and path != RUN + SEAL
    }
    for name, what in differences(seal.files, found).items():
        yield Problem(name, what, facts.AGAIN)


def _sboms(reading: _Reading) -> Iterator[SbomFacts]:
    for form, name in SBOM_FILES.items():
        if RUN + name in reading.files:
            read = functools.partial(parse_sbom, reading.files[RUN + name], form, name)
            found = reading.guarded(name, read)
            if found is not None:
                yield found


def _trust(reading: _Reading, definition: Definition) -> Trust:
    """Whom the gate believed: its own rows, with the keys that are in the bundle."""
    signers = []
    for rule in definition.trust:
        found = reading.guarded(GATE, functools.partial(_believed, reading.files, rule))
        if found is not None:
            signers.append(found)
    return Trust(signers=tuple(signers), clock_tolerance_s=60 * definition.clock_minutes)


def _believed(files: Files, rule: TrustRule) -> Believed:
    key = parse_public(facts.content(files, place := KEYS + posixpath.basename(rule.key)), place) if rule.key else None
    return Believed(
        name=rule.name,
        may_sign=frozenset(PREDICATES[name] for name in rule.may_sign if name in PREDICATES),
        key=key,
        identity=Identity(rule.identity, rule.issuer) if rule.identity else None,
        until=parse_time(rule.until, f"{GATE}: until") if rule.until else None,
    )


def _attested(
    reading: _Reading, trust: Trust, digest: str, now: dt.datetime, unchecked: dict[str, str]
) -> Iterator[Attested]:
    """The statements of other machines that counted for the gate."""
    for path in facts.evidence_paths(reading.files):
        name, kind = posixpath.basename(path), ""
        try:
            envelope = facts.envelope_of(reading.files, path)
            claimed = facts.statement_of(reading.files, path).predicate_type
            kind = SHORT.get(claimed, claimed)
            known = verify(envelope, trust, predicate_type=claimed, subject_digest=digest, now=now, where=path)
        except MissingError as error:
            unchecked[kind] = error.what
        except OrbitError as error:
            reading.problems.append(Problem(name, error.what.removeprefix(f"{path}: "), error.fix, kind))
        else:
            yield Attested(
                file=name,
                predicate=kind,
                digest=known.statement.image_digest,
                signer=known.signer,
                made=known.made,
                content=known.statement.predicate,
            )
