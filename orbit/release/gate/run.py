"""The gate from end to end: the clean room, the second prefix, the decision, the bundle.

What is there and still counts is not done again, so a gate that was killed goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbit.core.console import Progress
from orbit.core.files import exclusive
from orbit.core.records import load_json
from orbit.errors import InputError, OrbitError, RefusedError
from orbit.profile.model import Profile, load_profile
from orbit.release.attest.signers import Signer
from orbit.release.bundle.gather import checkout_files, evidence_files, key_files, run_files
from orbit.release.bundle.model import COVERAGE, PROVENANCE, Bundle, BundleParts
from orbit.release.bundle.write import write_bundle
from orbit.release.coverage import coverage_of_run
from orbit.release.evidence import Summary
from orbit.release.gate import cleanroom
from orbit.release.gate.candidate import Candidate, read_candidate
from orbit.release.gate.collect import Places, collect
from orbit.release.gate.decide import Decision, decide
from orbit.release.gate.documents import check_documents
from orbit.release.gate.facts import CLEAN_ROOM_FILE, SECOND_PREFIX_FILE, CleanRoom
from orbit.release.gate.model import FILE, Definition, load_definition, trust_of
from orbit.release.provenance import provenance_of_run
from orbit.release.seal import add_evidence

LOCK = ".gate.lock"


@dataclass(frozen=True, slots=True)
class Gate:
    """One call: what is judged, by which definition."""

    profile: Profile
    places: Places
    definition: Definition
    parser: argparse.ArgumentParser
    """Of the whole command line: pages are held against it."""
    progress: Progress

    def decide(self, now: dt.datetime) -> Decision:
        """Read everything, then judge it."""
        trust = trust_of(self.definition, self.places.root)
        evidence = collect(
            self.places,
            self.profile,
            trust=trust,
            now=now,
            documents=check_documents(self.places.root, self.parser),
            progress=self.progress,
        )
        return decide(evidence, self.definition, now)

    def lock(self, purpose: str) -> contextlib.AbstractContextManager[None]:
        """Context manager: be the only gate over this run, or raise :class:`RefusedError`."""
        run = self.places.run.resolve()
        return exclusive(run.parent / f".{run.name}{LOCK}", purpose)


def open_gate(
    run: Path | None,
    profile_name: str,
    root: Path,
    *,
    evidence: Path | None,
    parser: argparse.ArgumentParser,
    progress: Progress,
) -> Gate:
    """The gate over ``run`` (by default the newest of the profile); without a name the profile is the one it states.

    Raises :class:`InputError` for a run, a profile or a definition that cannot be read.
    """
    name = profile_name or (_stated_profile(run) if run is not None else "cu130")
    place = run if run is not None else Path("dist") / name
    profile = load_profile(name)
    definition = load_definition(root)
    return Gate(profile, Places(root, place, evidence), definition, parser, progress)


def _stated_profile(run: Path) -> str:
    if not run.is_dir():
        raise InputError(f"{run}: no such folder", fix="make a run first: ./orbitw ship")
    try:
        return load_json(run / "summary.json", Summary).profile
    except OrbitError as error:
        raise InputError(f"{error.what}, so it does not say its profile", fix="name it: --profile NAME") from None


def build_again(gate: Gate, options: cleanroom.Options, *, again: bool, now: dt.datetime) -> CleanRoom:
    """The clean room of the run: the one that is there when it still counts, else a new one, added to the run."""
    candidate = read_candidate(gate.places.run, gate.profile)
    if not again and (known := _known_room(gate, candidate, now)) is not None:
        gate.progress.step(f"clean room: was built on {known.finished}, and gave the same image")
        return known
    room = cleanroom.clean_room(
        cleanroom.Job(
            candidate=candidate,
            profile=gate.profile,
            root=gate.places.root,
            policy=gate.definition.cleanroom,
            options=options,
            progress=gate.progress,
        )
    )
    add_evidence(gate.places.run, CLEAN_ROOM_FILE, room)
    return room


def take_in(gate: Gate) -> None:
    """Add what was made here and lies with the attestations to the run, which the bundle is made from."""
    folder = gate.places.attestations
    given = folder / SECOND_PREFIX_FILE if folder is not None else None
    if given is not None and given.is_file():
        add_evidence(gate.places.run, SECOND_PREFIX_FILE, load_json(given, dict[str, Any]))


def _known_room(gate: Gate, candidate: Candidate, now: dt.datetime) -> CleanRoom | None:
    """A clean room of this very candidate that gave the same image lately enough."""
    path = gate.places.run / CLEAN_ROOM_FILE
    if not path.is_file():
        return None
    room = load_json(path, CleanRoom)
    same = (room.result, room.digest, room.candidate, room.commit) == (
        "same",
        candidate.digest,
        candidate.digest,
        candidate.commit,
    )
    age = now - dt.datetime.fromisoformat(room.finished)
    most = gate.definition.requirement("clean-room").max_age_days
    return room if same and age <= dt.timedelta(days=most) else None


def release(
    gate: Gate,
    options: cleanroom.Options,
    signer: Signer | None,
    out: Path,
    *,
    again: bool,
    now: Callable[[], dt.datetime],
) -> tuple[Decision, Bundle | None]:
    """All of it: (the decision, the bundle at ``out`` when it is a release and there is somebody to sign it).

    Raises :class:`RefusedError` when another gate is at work or something is at ``out``, and what the clean room and
    the writer of the bundle raise. Nothing is left at ``out`` unless all of it went well.
    """
    if signer is not None and out.exists():
        raise RefusedError(f"{out}: exists, and a release is never written over", fix="name another folder: --out")
    with gate.lock("orbit gate run"):
        build_again(gate, options, again=again, now=now())
        take_in(gate)
        decision = gate.decide(now())
        if not decision.release or signer is None:
            return decision, None
        gate.progress.step(f"writing the bundle to {out}")
        return decision, write_bundle(out, make_parts(gate, decision), signer)


def make_parts(gate: Gate, decision: Decision) -> BundleParts:
    """What the bundle is made of: the run, the checkout, the statements of other machines, what is signed now."""
    profile, places = gate.profile, gate.places
    files = run_files(places.run) | checkout_files(profile, places.root)
    if places.attestations is not None:
        files |= evidence_files(places.attestations)
    keys = [places.root / FILE[0] / rule.key for rule in gate.definition.trust if rule.key]
    return BundleParts(
        profile=profile,
        decision=decision,
        files=files | key_files(keys),
        statements={
            PROVENANCE: provenance_of_run(places.run, profile, places.root),
            COVERAGE: coverage_of_run(places.run, profile),
        },
    )
