"""How an image was made, as a SLSA v1 provenance predicate (https://slsa.dev/spec/v1.0/provenance).

Everything comes from the records of one run of ``orbit ship``; nothing is looked up elsewhere. What the fields mean for
this kind of build (``buildType``) stands in docs/attest.md. Names are those of the standard::

    buildDefinition   buildType, externalParameters, internalParameters, resolvedDependencies
    runDetails        builder {id, version}, metadata {invocationId, startedOn, finishedOn}, byproducts

``digest`` has sha256 of files and ``gitCommit`` only, which every reader knows; the hash of a folder (:data:`TREE`) and
git's own of a tree stand among the annotations.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbit.core.files import sha256_file
from orbit.core.records import Record, load_json
from orbit.errors import InputError
from orbit.kernels.manifest import BuildManifest
from orbit.profile.lock import Lock
from orbit.profile.model import Profile
from orbit.profile.place import lock_name, profile_lock
from orbit.release.attest.statement import PROVENANCE, Resource, Statement, make_statement, parse_time
from orbit.release.evidence import KERNELS_FILE, KernelManifests, Result, StageRecord, Summary
from orbit.release.sbom.purl import purl
from orbit.release.seal import SEAL, Seal, read_seal

BUILD_TYPE = "urn:orbit:build:ship:1"
UNKNOWN_BUILDER = "urn:orbit:builder:somebody"
"""A machine that nobody vouches for: whoever signs is the only one who says what it did."""
UNKNOWN_SOURCE = "urn:orbit:source:unknown"
TREE = "orbitTreeSha256"
"""sha256 over names, kinds and contents of a folder: :func:`orbit.core.files.tree_hash`."""
SUMMARY_FILE = "summary.json"
JSON_TYPE = "application/json"


class External(Record, frozen=True, kw_only=True, rename="camel"):
    """What whoever started the run chose; with it, and the source, the run can be repeated."""

    profile: str
    command: tuple[str, ...]
    """Words of a command line that does the same in a checkout of ``source``."""
    source: Resource
    """The commit."""


class Internal(Record, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What follows from the source and the machine."""

    orbit_version: str
    stages: dict[str, dict[str, Any]]
    """Inputs of each stage as its record has them: content hashes, mostly."""
    tools: dict[str, str] = {}
    """Versions of programs that did the work."""
    skipped: tuple[str, ...] = ()
    """What the run left out, with the reason."""


class BuildDefinition(Record, frozen=True, kw_only=True, rename="camel"):
    """Everything that went in."""

    build_type: str = BUILD_TYPE
    external_parameters: External
    internal_parameters: Internal
    resolved_dependencies: tuple[Resource, ...]


class Builder(Record, frozen=True, kw_only=True, rename="camel"):
    """Who ran it."""

    id: str
    """URI; :data:`UNKNOWN_BUILDER` for a machine that nobody vouches for."""
    version: dict[str, str]


class Metadata(Record, frozen=True, kw_only=True, rename="camel"):
    """Which run it was."""

    invocation_id: str
    """Name of the run's folder."""
    started_on: str
    """RFC 3339, UTC."""
    finished_on: str


class RunDetails(Record, frozen=True, kw_only=True, rename="camel"):
    """What happened."""

    builder: Builder
    metadata: Metadata
    byproducts: tuple[Resource, ...]
    """The files of evidence."""


class Provenance(Record, frozen=True, kw_only=True, rename="camel"):
    """The predicate."""

    build_definition: BuildDefinition
    run_details: RunDetails


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What provenance is made from."""

    profile: Profile
    summary: Summary
    seal: Seal
    """Commit, and the hash of every file of the run."""
    seal_sha256: str
    """Of the file with the seal, which the seal itself cannot name."""
    manifests: tuple[BuildManifest, ...]
    lock: Lock
    base_lock_sha256: str
    repository: str = ""
    """Address of the source; empty when nobody said where it is."""
    builder: str = UNKNOWN_BUILDER


def provenance_of_run(
    folder: Path, profile: Profile, root: Path, *, repository: str = "", builder: str = UNKNOWN_BUILDER
) -> Statement:
    """The statement about the image of the run in ``folder``; ``root`` is the checkout it was made from.

    Raises :class:`InputError` for a run without a seal, of another profile, without an image, one that failed, and
    when the lock in ``root`` is not the one the run used.
    """
    path = folder / SUMMARY_FILE
    summary = load_json(path, Summary)
    check_whole(summary, profile, path)
    facts = Facts(
        profile=profile,
        summary=summary,
        seal=read_seal(folder),
        seal_sha256=sha256_file(folder / SEAL),
        manifests=load_json(folder / KERNELS_FILE, KernelManifests).manifests,
        lock=profile_lock(profile, root),
        base_lock_sha256=sha256_file(root / "containers" / f"{profile.image.base}.lock"),
        repository=repository,
        builder=builder,
    )
    used = _stage(summary, "lock").outputs.get("lock")
    if used != facts.lock.sha256:
        raise InputError(
            f"{facts.lock.path}: is not the lock this run used ({str(used)[:12]})",
            fix=f"check out the commit of the run: {facts.seal.checkout.commit or 'it is not known'}",
        )
    return make_statement(profile.image.name, summary.image_digest, PROVENANCE, make_provenance(facts))


def check_whole(summary: Summary, profile: Profile, path: Path) -> None:
    """Raises :class:`InputError` unless the run made an image of ``profile`` and did not fail."""
    again = "run ./orbitw ship again"
    if summary.profile != profile.name:
        raise InputError(
            f"{path}: a run of profile {summary.profile}, not {profile.name}", fix="name the other profile"
        )
    if summary.result is not Result.PASSED:
        raise InputError(f"{path}: the run {summary.result.value}: there is nothing to vouch for", fix=again)
    if not summary.image_digest:
        raise InputError(f"{path}: names no image digest", fix=again)


def make_provenance(facts: Facts) -> Provenance:
    """The predicate. Equal facts give an equal one. Raises :class:`InputError` for records that lack a stage."""
    summary = facts.summary
    stages = {record.stage: record for record in summary.stages if record.result is Result.PASSED}
    return Provenance(
        build_definition=BuildDefinition(
            external_parameters=External(profile=summary.profile, command=_command(summary), source=_source(facts)),
            internal_parameters=Internal(
                orbit_version=summary.orbit_version,
                stages={name: record.inputs for name, record in stages.items()},
                tools={name: version for record in stages.values() for name, version in record.tools.items()},
                skipped=tuple(
                    f"{record.stage}: {part.what}: {part.reason}"
                    for record in summary.stages
                    for part in record.skipped
                ),
            ),
            resolved_dependencies=tuple(_dependencies(facts)),
        ),
        run_details=RunDetails(
            builder=Builder(id=facts.builder, version={"orbit": summary.orbit_version}),
            metadata=_metadata(summary),
            byproducts=tuple(_byproducts({**facts.seal.files, SEAL: facts.seal_sha256})),
        ),
    )


def _command(summary: Summary) -> tuple[str, ...]:
    """What repeats the run: the choices that its records name."""
    words = ["orbit", "ship", "--profile", summary.profile]
    tier = _stage(summary, "kernels").inputs.get("tier")
    words += ["--kernels", tier] if isinstance(tier, str) else []
    smoke = _stage(summary, "smoke")
    words += ["--no-smoke"] if smoke.result is Result.SKIPPED else []
    return tuple(words)


def _source(facts: Facts) -> Resource:
    """The commit; without one, what git said."""
    checkout = facts.seal.checkout
    if not checkout.commit:
        notes = {"unknown": checkout.reason or "no commit is recorded"}
        return Resource(name="source", uri=UNKNOWN_SOURCE, annotations=notes)
    uri = f"git+{facts.repository}@{checkout.commit}" if facts.repository else ""
    changed = {"changedFiles": checkout.changes} if checkout.changes else {}
    return Resource(name="source", uri=uri, digest={"gitCommit": checkout.commit}, annotations=changed)


def _dependencies(facts: Facts) -> Iterator[Resource]:
    """What the build was made from: source, locks, interpreter, each wheel of the lock, each kernel."""
    yield _source(facts)
    yield Resource(name=lock_name(facts.profile), digest={"sha256": facts.lock.sha256})
    yield Resource(name=f"containers/{facts.profile.image.base}.lock", digest={"sha256": facts.base_lock_sha256})
    interpreter = _stage(facts.summary, "environment").inputs.get("interpreter")
    if isinstance(interpreter, str):
        python = facts.profile.python
        yield Resource(
            name=f"cpython-{python}", uri=purl("generic", "cpython", python), annotations={TREE: interpreter}
        )
    kernels = {manifest.dist for manifest in facts.manifests}
    for package in facts.lock.closure(facts.profile.extras):
        wheel = package.wheel
        if wheel is not None and wheel.sha256 and package.name not in kernels:
            yield Resource(
                name=wheel.filename, uri=purl("pypi", package.name, package.version), digest={"sha256": wheel.sha256}
            )
    for manifest in sorted(facts.manifests, key=lambda item: item.dist):
        yield from _kernel(manifest)


def _kernel(manifest: BuildManifest) -> Iterator[Resource]:
    """A kernel package: the wheel that was installed, and what it was compiled from."""
    uri = purl("pypi", manifest.dist, manifest.version)
    notes = {"role": "kernel", "mode": manifest.mode}
    if manifest.mode == "source":
        notes |= {"compiler": manifest.compiler, "hostCompiler": manifest.host_compiler}
    yield Resource(name=manifest.wheel, uri=uri, digest={"sha256": manifest.wheel_sha256}, annotations=notes)
    source = manifest.source
    said = {"role": "kernel source", "for": manifest.wheel}
    for pin in source.pins:
        yield Resource(
            name=f"{manifest.recipe}/{pin.path}".rstrip("/"),
            uri=f"git+{pin.url}@{pin.commit}",
            digest={"gitCommit": pin.commit},
            annotations={**said, "gitTree": pin.tree},
        )
    if source.kind == "local":
        yield Resource(name=source.file, uri=uri, annotations={**said, TREE: source.sha256})
    elif source.kind == "sdist":
        yield Resource(name=source.file, uri=uri, digest={"sha256": source.sha256}, annotations=said)
    for patch in source.patches:
        yield Resource(
            name=f"kernels/patches/{manifest.recipe}/{patch.file}", digest={"sha256": patch.sha256}, annotations=said
        )


def _metadata(summary: Summary) -> Metadata:
    began = parse_time(summary.started, "started")
    return Metadata(
        invocation_id=summary.run,
        started_on=rfc3339(began),
        finished_on=rfc3339(began + dt.timedelta(seconds=summary.seconds)),
    )


def rfc3339(moment: dt.datetime) -> str:
    """``2026-11-30T21:00:00Z``: a moment as SLSA wants it, to the second."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _byproducts(files: Mapping[str, str]) -> Iterator[Resource]:
    for name, digest in sorted(files.items()):
        kind = JSON_TYPE if name.endswith(".json") else ""
        yield Resource(name=name, digest={"sha256": digest}, media_type=kind)


def _stage(summary: Summary, name: str) -> StageRecord:
    """The record of a stage. Raises :class:`InputError` when the run has none."""
    return stage_of(summary.stages, name)


def stage_of(stages: Sequence[StageRecord], name: str) -> StageRecord:
    """The record of the stage ``name``. Raises :class:`InputError` when there is none."""
    found = next((record for record in stages if record.stage == name), None)
    if found is None:
        raise InputError(f"the run has no record of its stage {name}", fix="run ./orbitw ship again")
    return found
