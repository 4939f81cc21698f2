"""A run of ``orbit ship`` in a few facts: what provenance and coverage are made from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orbit.audit.reports.report import LibraryCoverage, TargetCoverage, TargetReport
from orbit.core.findings import Skipped
from orbit.core.records import dump_json
from orbit.kernels.manifest import Binary, BuildManifest
from orbit.kernels.recipe import Submodule
from orbit.kernels.sources import PatchFile, Source
from orbit.release.checkout import Checkout
from orbit.release.evidence import KERNELS_FILE, KernelManifests, Result, StageRecord, Summary, write_summary
from orbit.release.seal import Seal, write_seal
from tests.audit.written_reports import full_report

DIGEST = "sha256:" + "9f" * 32
COMMIT = "ab" * 20
STARTED = "2026-11-30T20:00:00+00:00"


def manifest(dist: str, **changes: Any) -> BuildManifest:
    """A kernel built from an sdist, changed."""
    values: dict[str, Any] = {
        "recipe": dist, "dist": dist, "version": "1.5", "requested": ("compute_90a:sm_90a",), "units": (),
        "source": Source(kind="sdist", version="1.5", sha256="c" * 64, file=f"{dist}-1.5.tar.gz"),
        "found": (Binary(file=f"{dist}/_c.so", coverage={"sm_90a": 4}, images={"sm_90a": 4}, glibc="2.34"),),
        "compiler": "nvcc V13.0.88", "host_compiler": "g++ 12.2", "python": "3.12", "group": "cuda", "closure": "",
        "env": {}, "shim": "", "wheel": f"{dist}-1.5.whl", "wheel_sha256": "d" * 64,
    }  # fmt: skip
    return BuildManifest(**(values | changes))


GIT = Source(
    kind="git",
    version="2",
    sha256="e" * 64,
    url="https://example.com/fast.git",
    commit="1" * 40,
    tree="2" * 40,
    submodules=(Submodule(path="third/cutlass", url="https://example.com/c.git", commit="3" * 40, tree="4" * 40),),
    patches=(PatchFile(file="one.patch", sha256="5" * 64),),
)
LOCAL = Source(kind="local", version="1", sha256="6" * 64, file="kernels/packages/orbit-probe")
MANIFESTS = (
    manifest("zeta", mode="wheel", source=Source(kind="wheel", version="1.5", sha256="d" * 64, file="zeta-1.5.whl")),
    manifest("fast", source=GIT),
    manifest("orbit-probe", source=LOCAL),
    manifest("ext"),
)


def stage(name: str, **changes: Any) -> StageRecord:
    """A stage that passed, changed."""
    return StageRecord(**({"stage": name, "result": Result.PASSED, "started": STARTED, "seconds": 1.0} | changes))


def summary(lock_sha256: str, **changes: Any) -> Summary:
    """A run that passed, changed."""
    skipped = (Skipped(what="flash-attn", reason="tier extended"),)
    values: dict[str, Any] = {
        "run": "probe-20261130T200000Z",
        "profile": "probe",
        "orbit_version": "0.1.0",
        "result": Result.PASSED,
        "image_digest": DIGEST,
        "stages": (
            stage("lock", inputs={"profile": "p"}, outputs={"lock": lock_sha256}, tools={"uv": "0.9"}),
            stage("kernels", inputs={"tier": "core"}, skipped=skipped),
            stage("environment", inputs={"interpreter": "7" * 64}),
            stage("image-audit", started="2026-11-30T20:30:00+00:00"),
            stage("smoke"),
        ),
        "started": STARTED,
        "seconds": 125.4,
    }
    return Summary(**(values | changes))


def coverage(file: str, *targets: tuple[str, int, int, int], mode: str = "registering", **more: Any) -> LibraryCoverage:
    """Device code of one file; targets as (name, sass, ptx-jit, none)."""
    rows = tuple(TargetCoverage(target=name, sass=s, ptx_jit=p, none=n) for name, s, p, n in targets)
    return LibraryCoverage(
        file=file, mode=mode, containers=sum(targets[0][1:]), images={}, payload_bytes=1, targets=rows, **more
    )


FILES = (
    coverage("ext/_c.so", ("h100", 4, 0, 0), ("b200", 1, 2, 1)),
    coverage("good/_d.so", ("h100", 3, 0, 0), ("b200", 3, 0, 0), distribution="good"),
    coverage("good/_e.so", ("h100", 1, 0, 2), ("b200", 0, 3, 0), mode="dispatching", distribution="good"),
    coverage("/usr/lib/odd.so", ("h100", 0, 0, 2), ("b200", 2, 0, 0)),
)


def audit(files: Sequence[LibraryCoverage] = FILES, **changes: Any) -> TargetReport:
    """A report of the audit of the image."""
    return full_report(coverage=tuple(files), kind="image", **changes)


def write_run(folder: Path, made: Summary, report: TargetReport, *, checkout: Checkout | None = None) -> Path:
    """The folder such a run leaves behind."""
    folder.mkdir()
    write_summary(folder, made)
    dump_json(folder / "image-audit.json", report)
    dump_json(folder / KERNELS_FILE, KernelManifests(manifests=MANIFESTS))
    seal = Seal(
        run=made.run,
        profile=made.profile,
        orbit_version=made.orbit_version,
        image=made.image_digest,
        checkout=checkout or Checkout(commit=COMMIT),
        files={},
        sealed="",
    )
    write_seal(folder, seal)
    return folder
