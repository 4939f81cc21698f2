"""Verify one wheel file: the hash, the recipe's promises, the audit's rules, and with mode ``jit`` the probes.

Imported when there is something to verify: the readers and rules of the audit cost a third of a second.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orbit.audit.known.policy import matches
from orbit.core.console import Progress
from orbit.core.findings import Finding, error_finding
from orbit.errors import MissingError
from orbit.kernels import manifest as manifests
from orbit.kernels.buildenv import SITE, closure_hash
from orbit.kernels.manifest import BuildManifest
from orbit.kernels.prebuilt.jit import prove
from orbit.kernels.prebuilt.judge import Judged, image_bytes, judge_wheel
from orbit.kernels.prebuilt.obtain import check_hash, locked_wheel
from orbit.kernels.prebuilt.record import JitProof, Verified
from orbit.kernels.recipe import Recipe
from orbit.kernels.wheels.tags import glibc_need
from orbit.profile.lock import Lock
from orbit.profile.model import Profile


@dataclass(frozen=True, slots=True)
class JitTools:
    """What mode ``jit`` needs besides the build environment."""

    nvdisasm: Path
    scratch: Path
    """An empty folder; whoever made it removes it."""


def verify_wheel(
    recipe: Recipe,
    wheel: Path,
    profile: Profile,
    lock: Lock,
    *,
    environment: Path | None,
    others: tuple[Path, ...] = (),
    jit: JitTools | None = None,
    progress: Progress,
    today: dt.date | None = None,
) -> tuple[BuildManifest, tuple[Finding, ...]]:
    """(the manifest, findings that make the wheel unusable) of one wheel file.

    ``environment``: prefix of the build environment, which holds what the wheel is loaded with; None: that is not
    asked, and the manifest says so. ``others``: wheels it is loaded with besides. A recipe with mode ``jit`` needs the
    environment, and ``jit``.

    Raises :class:`MissingError` when the lock has no wheel of it, :class:`CheckFailed` when the file is another one.
    """
    source = locked_wheel(recipe.dist, lock)
    progress.step(f"{recipe.name} {source.version}: verifying {wheel.name}")
    check_hash(wheel, source)
    judged = judge_wheel(wheel, profile, environment=environment, others=others, progress=progress, today=today)
    findings = [*judged.findings, *_contents(recipe, judged)]
    proof: JitProof | None = None
    if recipe.mode == "jit":
        if environment is None or jit is None:
            raise MissingError(f"{recipe.name}: nothing to compile its probes with", fix="give the build environment")
        proof, found = prove(
            recipe, wheel, profile, environment_site=environment / SITE, nvdisasm=jit.nvdisasm,
            scratch=jit.scratch, progress=progress,
        )  # fmt: skip
        findings += found
    manifest = BuildManifest(
        recipe=recipe.name,
        dist=recipe.dist,
        version=source.version,
        mode=recipe.mode,
        source=source,
        requested=(),
        units=(),
        found=tuple(
            manifests.summarise(judged.facts.in_site(item.path), item.containers, glibc_need(item))
            for item in judged.facts.objects
        ),
        compiler=proof.compiler if proof else "",
        host_compiler="",
        python=profile.python,
        group=recipe.group,
        closure=closure_hash(lock, recipe.group),
        env={},
        shim="",
        wheel=source.file,
        wheel_sha256=source.sha256,
        verified=_verified(judged, profile, findings),
        jit=proof,
    )
    return manifest, tuple(finding for finding in findings if finding.fatal)


def _verified(judged: Judged, profile: Profile, findings: list[Finding]) -> Verified:
    return Verified(
        targets=tuple(f"{target.name} {target.capability}" for target in profile.targets),
        rules=judged.rules,
        declared=judged.declared,
        loaded=judged.loaded,
        image_bytes=image_bytes(judged.facts.objects),
        symbols=judged.symbols,
        modules=judged.modules,
        notes=tuple(finding for finding in findings if not finding.fatal),
        skipped=judged.skipped,
    )


def _contents(recipe: Recipe, judged: Judged) -> Iterator[Finding]:
    facts = judged.facts
    files = [facts.in_site(path) for path, fact in facts.tree.entries.items() if fact.is_file]
    for pattern in recipe.artifacts:
        if not any(matches(name, (pattern,)) for name in files):
            yield error_finding(
                "kernel-artifact", recipe.name, f"no file matches {pattern}", {"files": str(len(files))},
                "upstream's build dropped it: lock another release; the package fails without it, or compiles it",
            )  # fmt: skip
    containers = sum(len(item.containers) for item in facts.objects)
    if containers != recipe.device_units:
        yield error_finding(
            "kernel-units", recipe.name,
            f"{containers} fatbin containers in the wheel, the recipe says {recipe.device_units}", {},
            "if upstream changed its sources on purpose, change device_units in the recipe; else kernels were dropped",
        )  # fmt: skip
