"""A whole small world of a release: a checkout, a sealed run, statements of a GPU machine, keys, a decision, a bundle.

Everything is written by the code that writes it in earnest, or by hand where that would need a compiler or a GPU; and
the decision is the gate's own. What a test changes, it changes here, before the seal.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from orbit import __version__
from orbit.audit.reports.report import Expected, TargetReport
from orbit.audit.rules import RULE_IDS
from orbit.core.console import Silent
from orbit.core.files import sha256_file, write_atomic
from orbit.core.findings import Severity
from orbit.core.records import dump_json
from orbit.image.oci import read_layout
from orbit.image.smoke.report import SmokeReport, SmokeRun
from orbit.image.smoke.run import load_list
from orbit.kernels.manifest import Binary
from orbit.kernels.recipe import gencode_pairs
from orbit.profile.model import Profile, load_profile
from orbit.profile.place import lock_name, project_name
from orbit.release.attest.dsse import write_envelope
from orbit.release.attest.keys import public_pem
from orbit.release.attest.signers import LocalSigner, sign_statement
from orbit.release.attest.statement import COVERAGE, PROVENANCE, QUALIFICATION, SMOKE, make_statement
from orbit.release.attest.trust import Believed, Trust
from orbit.release.bundle.gather import checkout_files, evidence_files, key_files, run_files
from orbit.release.bundle.model import COVERAGE as COVERAGE_PATH
from orbit.release.bundle.model import PROVENANCE as PROVENANCE_PATH
from orbit.release.bundle.model import Bundle, BundleParts
from orbit.release.bundle.report import Claim, Report
from orbit.release.bundle.verify import verify_bundle
from orbit.release.bundle.write import write_bundle
from orbit.release.checkout import Checkout
from orbit.release.coverage import coverage_of_run
from orbit.release.evidence import (
    KERNELS_FILE,
    KernelManifests,
    Result,
    StageRecord,
    Summary,
    write_stage,
    write_summary,
)
from orbit.release.gate.collect import Places, collect
from orbit.release.gate.decide import Decision, decide
from orbit.release.gate.facts import CLEAN_ROOM_FILE, SECOND_PREFIX_FILE, CleanRoom, Documents
from orbit.release.gate.model import load_definition, trust_of
from orbit.release.provenance import provenance_of_run
from orbit.release.sbom.model import Component, Inventory, Licence
from orbit.release.sbom.write import FILES, render, summarise
from orbit.release.seal import Seal, write_seal
from orbit.smoke.model import Check, CheckResult
from tests.audit.written_reports import finding, report
from tests.qualify.made import record as qualification_record
from tests.release.made import coverage, manifest
from tests.source import ROOT
from tests.writers.tiny_image import file, write_image

COMMIT = "ab" * 20
STARTED = "2026-11-30T20:00:00+00:00"
DECIDED = dt.datetime(2026, 11, 30, 21, 0, tzinfo=dt.UTC)
ENVIRONMENT = "7" * 64
TRUST = """
[[trust]]
name = "lab"
key = "keys/lab.pub"
may_sign = ["smoke", "qualification", "clean-room", "second-prefix"]
"""
UNKNOWN = Licence(unknown="nothing in it says one")


@dataclass(slots=True)
class World:
    """Where everything is, and what a test may change before :meth:`bundle`."""

    place: Path
    proven: tuple[str, ...] = ("h100",)
    """Targets on which the lab says that it ran."""
    waived: str = "2027-03-01"
    """End of the waiver of one finding; empty: nothing is waived."""
    evidence_signer: LocalSigner | None = None
    """Who signs in place of the lab."""
    signer: LocalSigner = field(default_factory=lambda: LocalSigner(Ed25519PrivateKey.generate()))
    lab: LocalSigner = field(default_factory=lambda: LocalSigner(Ed25519PrivateKey.generate()))
    profile: Profile = field(default_factory=lambda: load_profile("probe"))

    @property
    def root(self) -> Path:
        """The checkout."""
        return self.place / "checkout"

    @property
    def run(self) -> Path:
        """The run of ship."""
        return self.place / "dist" / "probe-20261130T200000Z"

    @property
    def statements(self) -> Path:
        """What other machines signed."""
        return self.place / "statements"

    @property
    def digest(self) -> str:
        """Of the image."""
        return read_layout(self.run / "image").digest

    def trust(self, *signers: LocalSigner) -> Trust:
        """What a user trusts: by default the release's key and the lab's."""
        names = {self.signer.keyid: "release.pub", self.lab.keyid: "lab.pub"}
        kinds = frozenset({SMOKE, QUALIFICATION, PROVENANCE, COVERAGE, "urn:orbit:predicate:release:1"})
        return Trust(
            signers=tuple(
                Believed(name=names.get(who.keyid, "other.pub"), may_sign=kinds, key=who.key.public_key())
                for who in (signers or (self.signer, self.lab))
            )
        )

    def make(self) -> World:
        """Write checkout, run and statements."""
        write_checkout(self)
        write_run(self)
        write_statements(self)
        return self

    def decision(self) -> Decision:
        """The gate's, on :data:`DECIDED`."""
        definition = load_definition(self.root)
        evidence = collect(
            Places(self.root, self.run, self.statements),
            self.profile,
            trust=trust_of(definition, self.root),
            now=DECIDED,
            documents=Documents({"links": 3, "commands": 2}, ()),
            progress=Silent(),
        )
        return decide(evidence, definition, DECIDED)

    def parts(self, decision: Decision | None = None) -> BundleParts:
        """What the bundle is made of."""
        files = run_files(self.run) | checkout_files(self.profile, self.root) | evidence_files(self.statements)
        return BundleParts(
            profile=self.profile,
            decision=decision or self.decision(),
            files=files | key_files([self.root / "ci" / "keys" / "lab.pub"]),
            statements={
                PROVENANCE_PATH: provenance_of_run(self.run, self.profile, self.root),
                COVERAGE_PATH: coverage_of_run(self.run, self.profile),
            },
        )

    def bundle(self, name: str = "bundle") -> Bundle:
        """Write it."""
        return write_bundle(self.place / name, self.parts(), self.signer)

    def verify(
        self,
        place: Path | None = None,
        trust: Trust | None = None,
        *,
        now: dt.datetime = DECIDED,
        image: str | None = None,
    ) -> Report:
        """Judge a bundle, by default the one at its place, an hour after it was made."""
        where = place or self.place / "bundle"
        return verify_bundle(where, trust or self.trust(), now=now + dt.timedelta(hours=1), image=image)


def claim(judged: Report, name: str) -> Claim:
    """The claim of that name."""
    return next(item for item in judged.claims if item.name == name)


# --- checkout ---------------------------------------------------------------------------------------------------------


def write_checkout(world: World) -> None:
    """The files of this checkout that a release reads, and a gate that trusts the lab."""
    profile = world.profile
    names = ["ci/gate.toml", f"containers/{profile.image.base}.lock"]
    names += [f"env/profiles/{profile.name}.toml"]
    names += [f"containers/smoke/{name}.toml" for name in (*profile.smoke, *profile.smoke_gpu)]
    names += [f"kernels/recipes/{name}.toml" for name in (*profile.kernels.core, *profile.kernels.extended)]
    for name in names:
        _copy(ROOT / name, world.root / name)
    _copy(ROOT / "uv.lock", world.root / lock_name(profile))
    _copy(ROOT / "pyproject.toml", world.root / project_name(profile))
    if profile.lock:
        place = world.root / "env" / "profiles" / f"{profile.name}.toml"
        place.write_text(place.read_text().replace("schema = 1\n", f'schema = 1\nlock = "{profile.lock}"\n', 1))
    gate = world.root / "ci" / "gate.toml"
    gate.write_text(gate.read_text() + TRUST)
    write_atomic(world.root / "ci" / "keys" / "lab.pub", public_pem(world.lab.key.public_key()))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


# --- run --------------------------------------------------------------------------------------------------------------


def write_run(world: World) -> None:
    """A run in which everything passed, sealed."""
    folder, profile = world.run, world.profile
    folder.mkdir(parents=True)
    manifests = KernelManifests(manifests=(_manifest(profile),))
    lock = sha256_file(world.root / lock_name(profile))
    labels = {
        "io.orbit.profile": profile.name,
        "io.orbit.lock": lock,
        "io.orbit.kernels": manifests.hash,
        "io.orbit.environment": ENVIRONMENT,
        "io.orbit.targets": " ".join(f"{target.name}={target.feature}" for target in profile.targets),
    }
    write_image(
        folder / "image",
        [[file("etc/os-release", b"ID=debian\n")], [file("opt/orbit/lib/x", b"x" * 5000)]],
        config={"Labels": labels, "Env": ["PATH=/usr/bin"], "Entrypoint": ["/opt/orbit/bin/orbit-entrypoint"]},
    )
    digest = world.digest
    audits = {"audit": _audit(world, "environment"), "image-audit": _audit(world, "image")}
    smoke = _smoke(profile, digest)
    inventory = _inventory(digest)
    for form, name in FILES.items():
        write_atomic(folder / name, render(inventory, form))
    dump_json(folder / KERNELS_FILE, manifests)
    dump_json(folder / "smoke.json", smoke)
    for name, audited in audits.items():
        dump_json(folder / f"{name}.json", audited)
    kernels = {
        "wheels": 1, "built_now": 1, "verified": 0, "manifest": manifests.hash,
        "sha256": {each.dist: each.wheel_sha256 for each in manifests.manifests},
    }  # fmt: skip
    stages = (
        _stage("lock", outputs={"lock": lock, "packages": 40}),
        _stage("kernels", inputs={"tier": "core"}, outputs=kernels),
        _stage("environment", inputs={"interpreter": "8" * 64}, outputs={"identity": ENVIRONMENT}),
        _stage("audit", outputs=audits["audit"].counts(), findings=audits["audit"].findings),
        _stage("image", outputs={"digest": digest}),
        _stage(
            "image-audit",
            inputs={"image": digest},
            outputs=audits["image-audit"].counts(),
            findings=audits["image-audit"].findings,
        ),
        _stage("sbom", outputs={"components": summarise(inventory).components, "checked": {}}),
        _stage("smoke", outputs=smoke.counts()),
    )
    for number, stage in enumerate(stages, start=1):
        write_stage(folder, number, stage)
    summary = Summary(
        run=folder.name, profile=profile.name, orbit_version=__version__, result=Result.PASSED, image_digest=digest,
        stages=stages, started=STARTED, seconds=100.0,
    )  # fmt: skip
    write_summary(folder, summary)
    _elsewhere(world, digest)
    seal = Seal(
        run=folder.name, profile=profile.name, orbit_version=__version__, image=digest, files={}, sealed="",
        checkout=Checkout(commit=COMMIT),
    )  # fmt: skip
    write_seal(folder, seal)


def _stage(name: str, **values: Any) -> StageRecord:
    return StageRecord(stage=name, result=Result.PASSED, started=STARTED, seconds=1.0, **values)


def _manifest(profile: Profile) -> Any:
    pairs = tuple(f"{virtual}:{real}" for virtual, real in gencode_pairs(profile))
    archs = "+".join(sorted(profile.target_archs()))
    found = Binary(file="orbit_probe/liborbit_probe.so", coverage={archs: 1}, images={}, glibc="2.17")
    return manifest("orbit-probe", requested=pairs, found=(found,), version="0.1.0", wheel="orbit_probe-0.1.0.whl")


def _audit(world: World, kind: str) -> TargetReport:
    waiver = f"nothing imports it (until {world.waived})" if world.waived else ""
    found = (finding(Severity.ERROR, waiver=waiver),) if waiver else ()
    rows = [coverage("orbit_probe/liborbit_probe.so", *((target.name, 1, 0, 0) for target in world.profile.targets))]
    expected = (Expected(subject="x/_hopper.so", what="no code for b200", reason="_blackwell.so serves it"),)
    return report(kind=kind, findings=found, coverage=tuple(rows), expected=expected, rules=tuple(sorted(RULE_IDS)))


def _smoke(profile: Profile, digest: str, **changes: Any) -> SmokeReport:
    runs = tuple(
        SmokeRun(list=name, uid=uid, seconds=2.0, results=_results(load_list(name).checks))
        for name in profile.smoke
        for uid in load_list(name).uids
    )
    values: dict[str, Any] = {
        "profile": profile.name, "image": digest, "engine": "docker", "engine_version": "20.10", "real_ids": True,
        "runs": runs,
    }  # fmt: skip
    return SmokeReport(**(values | changes))


def _results(checks: Sequence[Check], **facts: Any) -> tuple[CheckResult, ...]:
    return tuple(
        CheckResult(check=check.name, kind=check.kind, result=check.expect, seconds=0.1, detail="right", facts=facts)
        for check in checks
    )


def _inventory(digest: str) -> Inventory:
    components = (
        component("debian", "libc6", "2.36-9", licence=UNKNOWN, inside="base/debian"),
        component("base", "debian", "12"),
        component("python", "msgspec", "0.20.0", licence=Licence(expression="BSD-3-Clause")),
        component("kernel", "orbit-probe", "0.1.0"),
    )
    return Inventory(
        image="orbit/probe", version="0.1.0", digest=digest, created="1980-01-01T00:00:00Z", components=components,
        findings=(), checked={"distributions": 1},
    )  # fmt: skip


def component(kind: str, name: str, version: str, **more: Any) -> Component:
    """One part of an image."""
    return Component(ref=f"{kind}/{name}", kind=kind, name=name, version=version, **more)


def _elsewhere(world: World, digest: str) -> None:
    """The clean room and the second prefix, added to the run before it is sealed."""
    room = CleanRoom(
        profile=world.profile.name, commit=COMMIT, candidate=digest, digest=digest, tier="core", result="same",
        fence="namespace", started=STARTED, finished=STARTED, seconds=60.0,
    )  # fmt: skip
    dump_json(world.run / CLEAN_ROOM_FILE, room)
    prefix = {
        "schema": "orbit.second-prefix/1", "environment": ENVIRONMENT, "result": "passed", "prefix": "/srv/else",
        "uid": 65534, "started": STARTED, "finished": STARTED,
    }  # fmt: skip
    dump_json(world.run / SECOND_PREFIX_FILE, prefix)


# --- other machines ---------------------------------------------------------------------------------------------------


def write_statements(world: World) -> None:
    """A smoke report of each proven target, and a qualification, signed by the lab."""
    world.statements.mkdir()
    for target in world.profile.targets:
        if target.name in world.proven:
            device = f"NVIDIA {target.devices[-1]}"
            sign(world, f"smoke-{target.name}", SMOKE, gpu_report(world, device, target.capability))
    record = qualification_record(world.place / "qualified" / "record.json", image=world.digest)
    dated = msgspec.structs.replace(record, recorded=STARTED, profile=world.profile.name)
    sign(world, "qualification", QUALIFICATION, dated)


def gpu_report(world: World, device: str, capability: str, **changes: Any) -> SmokeReport:
    """What a machine with that GPU says."""
    facts = {"device": device, "capability": capability}
    runs = tuple(
        SmokeRun(list=name, uid=65534, seconds=2.0, results=_results(load_list(name).checks, **facts))
        for name in world.profile.smoke_gpu
    )
    return _smoke(world.profile, world.digest, runs=runs, **changes)


def sign(world: World, name: str, kind: str, content: Any, *, digest: str = "") -> None:
    """Sign ``content`` as the lab does, dated."""
    plain = {"started": STARTED, **{key: value for key, value in msgspec.to_builtins(content).items() if value != ""}}
    statement = make_statement(world.profile.image.name, digest or world.digest, kind, plain)
    who = world.evidence_signer or world.lab
    write_envelope(world.statements / f"{name}.intoto.json", sign_statement(statement, who))
