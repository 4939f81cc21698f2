"""A miniature but complete run, with every piece of evidence, through the real writers; and its decision.

A test changes one piece before it is written (everything else follows from it, so nothing contradicts), or edits a
file afterwards.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orbit import __version__
from orbit.audit.reports.report import TargetReport
from orbit.audit.rules import DEPTH_IDS, RULE_IDS, RULES
from orbit.core.console import Silent
from orbit.core.files import sha256_file
from orbit.core.findings import Skipped
from orbit.core.records import dump_json
from orbit.image.blob import LayerBlob
from orbit.image.layout_writer import NamedLayer, image_documents, write_layout
from orbit.image.runtime import Identity, image_labels, run_config
from orbit.image.smoke.report import SmokeReport, SmokeRun
from orbit.image.smoke.run import load_list
from orbit.kernels.manifest import Binary, BuildManifest
from orbit.kernels.recipe import gencode_pairs
from orbit.kernels.sources import Source
from orbit.profile.model import Profile, load_profile
from orbit.profile.place import lock_path
from orbit.qualify import records as qualified
from orbit.release.attest.dsse import write_envelope
from orbit.release.attest.signers import LocalSigner, sign_statement
from orbit.release.attest.statement import PREDICATES, make_statement
from orbit.release.attest.trust import Trust
from orbit.release.checkout import Checkout
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
from orbit.release.gate.facts import CLEAN_ROOM_FILE, SECOND_PREFIX_FILE, CleanRoom, Documents, Evidence
from orbit.release.gate.model import Definition, load_definition
from orbit.release.sbom.model import Component, Inventory
from orbit.release.sbom.write import FILES as SBOM_FILES
from orbit.release.sbom.write import render
from orbit.release.seal import Seal, add_evidence, write_seal
from orbit.smoke.model import CheckResult
from tests.release.attest.world import believed, signer, trust
from tests.writers.tiny_image import file, tar_bytes

ROOT = Path(__file__).resolve().parents[3]
NOW = dt.datetime(2026, 11, 30, 22, 0, tzinfo=dt.UTC)
STARTED = "2026-11-30T20:00:00+00:00"
COMMIT = "ab" * 20
ENVIRONMENT = "5e" * 32
TRUE = Documents(checked={"pages": 3, "links": 5, "commands": 7, "counts": 2}, findings=())


def manifest(profile: Profile, **changes: Any) -> BuildManifest:
    """orbit-probe as it comes out of a good build."""
    pairs = tuple(f"{virtual}:{real}" for virtual, real in gencode_pairs(profile))
    archs = sorted(pair.partition(":")[2] for pair in pairs)
    values: dict[str, Any] = {
        "recipe": "orbit-probe", "dist": "orbit-probe", "version": "0.1.0", "requested": pairs, "units": (),
        "source": Source(kind="local", version="0.1.0", sha256="6" * 64, file="orbit_probe"),
        "found": (
            Binary(
                file="orbit_probe/liborbit_probe.so",
                coverage={"+".join(archs): 1},
                images=dict.fromkeys(archs, 1),
                glibc="2.34",
            ),
        ),
        "compiler": "nvcc V13.0.88", "host_compiler": "g++ 12.2", "python": "3.12", "group": "cuda", "closure": "",
        "env": {}, "shim": "", "wheel": "orbit_probe-0.1.0.whl", "wheel_sha256": "d" * 64,
    }  # fmt: skip
    return BuildManifest(**(values | changes))


def report(kind: str, **changes: Any) -> TargetReport:
    """A clean audit without --deep."""
    foreign = [rule.id for rule in RULES.values() if kind not in rule.kinds]
    skipped = [Skipped(what=name, reason=f"says nothing about {kind}") for name in foreign]
    skipped += [Skipped(what=name, reason="reads the kernels themselves: --deep") for name in DEPTH_IDS]
    values: dict[str, Any] = {
        "target": f"/{kind}", "kind": kind, "profile": "probe", "uid": 65534, "findings": (), "expected": (),
        "coverage": (), "facts": {"files": 12, "bytes": 3000}, "driver_libraries": {}, "seconds": 1.5,
        "rules": tuple(sorted(RULE_IDS - {part.what for part in skipped})), "skipped": tuple(skipped),
    }  # fmt: skip
    return TargetReport(**(values | changes))


def results(name: str, **changes: str) -> tuple[CheckResult, ...]:
    """A result of every check of a list: passed, or what ``changes`` says of it (``_`` for ``-`` in its name)."""
    made = []
    for check in load_list(name).checks:
        result = changes.get(check.name.replace("-", "_"), check.expect)
        made.append(CheckResult(check=check.name, kind=check.kind, result=result, seconds=0.1, detail="as seen"))
    return tuple(made)


def smoke_cpu(digest: str, **changes: Any) -> SmokeReport:
    """probe-cpu in docker, for both users."""
    runs = tuple(SmokeRun(list="probe-cpu", uid=uid, seconds=1.0, results=results("probe-cpu")) for uid in (0, 65534))
    values: dict[str, Any] = {
        "profile": "probe", "image": digest, "engine": "docker", "engine_version": "28.0", "real_ids": True,
        "runs": runs, "started": STARTED,
    }  # fmt: skip
    return SmokeReport(**(values | changes))


def smoke_gpu(digest: str, device: str, capability: str, **changes: Any) -> SmokeReport:
    """probe-gpu on a device."""
    facts = {"device": device, "capability": capability, "target": "x"}
    made = tuple(
        replace(item, facts=facts) if item.kind == "gpu-device" else item
        for item in results("probe-gpu", **changes.pop("results", {}))
    )
    runs = (SmokeRun(list="probe-gpu", uid=65534, seconds=1.0, results=made),)
    return smoke_cpu(digest, **({"runs": runs} | changes))


def qualification(digest: str, **changes: Any) -> qualified.Qualification:
    """A record that passed."""
    case = qualified.CaseRecord(path="torch", dtype="float32", result="proven")
    device = qualified.Device(kind="cuda", name="NVIDIA H200", architecture="sm_90", capability="9.0")
    values: dict[str, Any] = {
        "verdict": "passed", "recorded": STARTED, "profile": "probe", "image": digest, "repeats": 3,
        "definition": qualified.DefinitionId(name="small", identity="1" * 64, batch="2" * 64, weights="3" * 64),
        "identity": qualified.Identity(device=device, versions={"torch": "2.11.0"}),
        "settings": qualified.Settings(), "counts": {"proven": 1}, "cases": (case,),
        "tensors": qualified.TensorFileId(file="t.bin", bytes=0, sha256="4" * 64, index={}),
    }  # fmt: skip
    return qualified.Qualification(**(values | changes))


def inventory(digest: str, components: int = 3) -> Inventory:
    """So many Debian packages."""
    made = tuple(Component(ref=f"debian:{n}", kind="debian", name=f"lib{n}", version="1") for n in range(components))
    return Inventory(
        image="orbit/probe", version="", digest=digest, created="1980-01-01T00:00:00Z", components=made,
        findings=(), checked={"layers": 1},
    )  # fmt: skip


@dataclass
class MadeRun:
    """The pieces of a run; change one, then :meth:`decide`."""

    tmp: Path
    lock: str = ""
    """sha256 that the run says of its lock; empty: of the one in the checkout."""
    checkout: Checkout = field(default_factory=lambda: Checkout(commit=COMMIT))
    manifests: tuple[BuildManifest, ...] | None = None
    """None: as of a good build."""
    audit: TargetReport = field(default_factory=lambda: report("environment"))
    image_audit: TargetReport = field(default_factory=lambda: report("image"))
    smoke: Callable[[str], SmokeReport] | None = smoke_cpu
    sbom: Callable[[str], Inventory] = inventory
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Stage -> fields of its record that are other than they follow."""
    without: tuple[str, ...] = ()
    """Files that the run did not leave."""
    room: dict[str, Any] | None = field(default_factory=dict)
    """Changes of the clean room; None: there was none."""
    prefix: dict[str, Any] | None = field(default_factory=dict)
    """Changes of the second prefix; None: there was none."""
    signed: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """Attestations: file -> (kind, content); filled with good ones by :meth:`write`."""
    key: LocalSigner = field(default_factory=signer)
    definition: Definition = field(default_factory=lambda: load_definition(ROOT))
    documents: Documents | None = TRUE
    content: bytes = b"1"
    """Of the one file in the image."""
    digest: str = ""

    @property
    def profile(self) -> Profile:
        """probe."""
        return load_profile("probe")

    @property
    def folder(self) -> Path:
        """Of the run."""
        return self.tmp / "dist" / "probe"

    @property
    def elsewhere(self) -> Path:
        """Folder of the attestations."""
        return self.tmp / "attested"

    @property
    def trust(self) -> Trust:
        """In the one key, for everything."""
        return trust(believed("lab", self.key, *PREDICATES.values()))

    def write(self) -> MadeRun:
        """Everything on disk: the sealed run and the attestations."""
        self.folder.mkdir(parents=True)
        manifests = (manifest(self.profile),) if self.manifests is None else self.manifests
        kernels = KernelManifests(manifests=manifests)
        lock = self.lock or sha256_file(lock_path(self.profile, ROOT))
        self.digest = write_image(
            self.folder / "image", self.profile, lock=lock, kernels=kernels.hash, content=self.content
        )
        smoke = self.smoke(self.digest) if self.smoke else None
        for name, value in (("audit", self.audit), ("image-audit", self.image_audit), ("smoke", smoke)):
            if value is not None:
                dump_json(self.folder / f"{name}.json", value)
        dump_json(self.folder / KERNELS_FILE, kernels)
        made = self.sbom(self.digest)
        for form, name in SBOM_FILES.items():
            (self.folder / name).write_bytes(render(made, form))
        self._write_records(lock, kernels, smoke, made)
        for name in self.without:
            (self.folder / name).unlink()
        self.seal()
        if self.room is not None:
            add_evidence(self.folder, CLEAN_ROOM_FILE, self.clean_room())
        if self.prefix is not None:
            add_evidence(self.folder, SECOND_PREFIX_FILE, self.second_prefix())
        self._sign()
        return self

    def _write_records(self, lock: str, kernels: KernelManifests, smoke: SmokeReport | None, made: Inventory) -> None:
        built = [each for each in kernels.manifests if each.mode == "source"]
        verified = len(kernels.manifests) - len(built)
        hashes = {each.dist: each.wheel_sha256 for each in built}
        outputs: dict[str, dict[str, Any]] = {
            "lock": {"outputs": {"lock": lock, "packages": 12}},
            "kernels": {
                "inputs": {"tier": "core"},
                "outputs": {
                    "wheels": len(built), "verified": verified, "manifest": kernels.hash, "sha256": hashes,
                },
            },
            "environment": {"outputs": {"identity": ENVIRONMENT}},
            "audit": {"outputs": self.audit.counts(), "findings": self.audit.findings},
            "image": {"outputs": {"digest": self.digest}},
            "image-audit": {
                "inputs": {"image": self.digest},
                "outputs": self.image_audit.counts(),
                "findings": self.image_audit.findings,
            },
            "sbom": {"outputs": {"components": made.counts, "checked": made.checked}, "findings": made.findings},
            "smoke": {"outputs": smoke.counts(), "findings": smoke.findings()} if smoke else {},
        }  # fmt: skip
        stages = []
        for number, (name, values) in enumerate(outputs.items(), start=1):
            fatal = [item for item in values.get("findings", ()) if item.fatal]
            result = Result.FAILED if fatal else Result.PASSED
            reason = f"{len(fatal)} finding(s)" if fatal else ""
            fields = {"stage": name, "result": result, "reason": reason, "started": STARTED, "seconds": 1.0, **values}
            stages.append(StageRecord(**(fields | self.changes.get(name, {}))))
            write_stage(self.folder, number, stages[-1])
        failed = any(stage.result is Result.FAILED for stage in stages)
        summary = Summary(
            run="probe-20261130T200000Z", profile="probe", orbit_version=__version__,
            result=Result.FAILED if failed else Result.PASSED, image_digest=self.digest, stages=tuple(stages),
            started=self.changes.get("summary", {}).get("started", STARTED), seconds=9.0,
        )  # fmt: skip
        write_summary(self.folder, summary)

    def seal(self) -> None:
        """Seal the run as it is now."""
        seal = Seal(
            run="probe-20261130T200000Z", profile="probe", orbit_version=__version__, image=self.digest,
            checkout=self.checkout, files={}, sealed="",
        )  # fmt: skip
        write_seal(self.folder, seal)

    def clean_room(self) -> CleanRoom:
        """A room that gave the same image, changed."""
        values: dict[str, Any] = {
            "profile": "probe", "commit": COMMIT, "candidate": self.digest, "digest": self.digest, "tier": "core",
            "result": "same", "fence": "namespace", "contacted": {"example.com": 3}, "started": STARTED,
            "finished": "2026-11-30T20:30:00+00:00", "seconds": 1800.0,
        }  # fmt: skip
        return CleanRoom(**(values | (self.room or {})))

    def second_prefix(self) -> dict[str, Any]:
        """A proof that is fine, changed."""
        values = {
            "schema": "orbit.second-prefix/1", "environment": ENVIRONMENT, "result": "passed", "image": self.digest,
            "prefix": "another path of 30 bytes", "uid": 65534, "engine": "bubblewrap", "started": STARTED,
            "finished": STARTED, "findings": [],
        }  # fmt: skip
        return values | (self.prefix or {})

    def _sign(self) -> None:
        good = {
            "h100.intoto.json": ("smoke", smoke_gpu(self.digest, "NVIDIA H200", "9.0")),
            "b200.intoto.json": ("smoke", smoke_gpu(self.digest, "NVIDIA B200", "10.0")),
            "numbers.intoto.json": ("qualification", qualification(self.digest)),
        }
        self.elsewhere.mkdir()
        for name, (kind, content) in (good | self.signed).items():
            if content is not None:
                self.sign(name, kind, content)

    def sign(self, name: str, kind: str, content: Any, *, digest: str = "", who: LocalSigner | None = None) -> Path:
        """Sign a document about the image, or another one."""
        statement = make_statement("orbit/probe", digest or self.digest, PREDICATES[kind], content)
        path = self.elsewhere / name
        write_envelope(path, sign_statement(statement, who or self.key))
        return path

    def collect(self, now: dt.datetime = NOW) -> Evidence:
        """What the gate reads."""
        places = Places(ROOT, self.folder, self.elsewhere)
        return collect(places, self.profile, trust=self.trust, now=now, documents=self.documents, progress=Silent())

    def decide(self, now: dt.datetime = NOW) -> Decision:
        """The decision over what is on disk; written first when it is not there."""
        if not self.folder.exists():
            self.write()
        return decide(self.collect(now), self.definition, now)


def write_image(layout: Path, profile: Profile, *, lock: str, kernels: str, content: bytes = b"1") -> str:
    """An image of one small layer, with the labels that Orbit gives; returns its digest."""
    data = tar_bytes([file("opt/orbit/a", content)])
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    place = layout.with_name(".layer.tar")
    place.write_bytes(data)
    blob = LayerBlob(digest=digest, diff_id=digest, size=len(data), tar_bytes=len(data), files=1, codec="none")
    identity = Identity(
        lock=lock, environment=ENVIRONMENT, python="3.12.1", kernels=kernels, base="b" * 64, orbit="c" * 64
    )
    labels = image_labels(profile, identity)
    layers = [NamedLayer(name="base", blob=blob, path=place)]
    documents = image_documents(layers, run_config(profile, labels, has=()), labels)
    made = write_layout(layout, layers, *documents, ref=profile.image.name)
    place.unlink()
    return made
