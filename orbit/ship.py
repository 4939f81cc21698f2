"""The main job: lock -> kernels -> environment -> audit -> image -> smoke, with evidence for every stage.

Each stage is a function from the run so far to an :class:`Outcome`. The runner times it, writes its record the moment
it ends, and goes on only while nothing failed; what did not run is recorded as skipped, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbit import __version__
from orbit.audit.reports.report import TargetReport
from orbit.audit.run import Options as AuditOptions
from orbit.audit.run import audit_environment, audit_target
from orbit.audit.targets import detect
from orbit.core.amounts import format_seconds
from orbit.core.console import Progress
from orbit.core.files import link_or_copy, sha256_file, tree_hash
from orbit.core.findings import Finding, Skipped
from orbit.core.meter import Meter
from orbit.core.paths import PACKAGE
from orbit.core.records import content_key, dump_json, load_json
from orbit.core.store import Entry, Store
from orbit.env.create import create_environment
from orbit.errors import CheckFailed, MissingError, OrbitError, RefusedError
from orbit.image.build import ImageResult, build_image
from orbit.image.smoke.run import run_smoke
from orbit.kernels.build import Limit, Wheelhouse, build_kernels
from orbit.kernels.plan import make_plan
from orbit.profile.check import check_lock
from orbit.profile.model import Profile
from orbit.release.checkout import Checkout, read_checkout
from orbit.release.evidence import (
    KERNELS_FILE,
    KernelManifests,
    Result,
    StageRecord,
    Summary,
    utc_now,
    write_stage,
    write_summary,
)
from orbit.release.sbom.write import FILES, SbomResult, write_sboms
from orbit.release.seal import Seal, write_seal


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller may choose; the defaults are the recommended job."""

    kernels: str = "core"
    """Tier of recipes: ``core`` or ``all``."""
    limit: Limit = field(default_factory=Limit)
    """Cores and memory for compilers."""
    engine: str = "auto"
    """Where the smoke checks run: ``auto``, ``docker`` or ``bubblewrap``."""
    smoke: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a stage says of itself."""

    inputs: dict[str, Any]
    outputs: dict[str, Any]
    reused: bool = False
    findings: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    tools: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Run:
    """One run: its fixed inputs, and what the stages have made so far."""

    profile: Profile
    root: Path
    store: Store
    options: Options
    folder: Path
    progress: Progress
    wheelhouse: Wheelhouse | None = None
    environment: Entry | None = None
    image: ImageResult | None = None


class StageSkipped(Exception):
    """Raised by a stage that was asked not to run; the text is the reason."""


def ship(profile: Profile, root: Path, store: Store, *, dist: Path, options: Options, progress: Progress) -> Summary:
    """Run the whole pipeline and write its evidence under ``dist``.

    Raises what the failing stage raised, after its record and the summary are on disk. Findings that are fatal raise
    :class:`CheckFailed`.
    """
    with store.writer("orbit ship"):
        store.sweep()
        began = utc_now()
        run_name = f"{profile.name}-{began:%Y%m%dT%H%M%SZ}"
        run = Run(profile, root, store, options, _new_run_folder(dist, run_name), progress)
        checkout = read_checkout(root)
        with Meter() as meter:
            records, failure = _run_stages(run)
        summary = Summary(
            run=run.folder.name,
            profile=profile.name,
            orbit_version=__version__,
            result=Result.FAILED if failure else Result.PASSED,
            image_digest=run.image.digest if run.image else "",
            stages=tuple(records),
            started=began.isoformat(),
            seconds=meter.seconds,
        )
        write_summary(run.folder, summary)
        _seal(run.folder, summary, _unmoved(checkout, root))
        _point_latest(dist, profile.name, run.folder)
    if failure is not None:
        raise failure
    return summary


def _unmoved(before: Checkout, root: Path) -> Checkout:
    """The checkout as it was all along; nothing certain when it changed while the run went on."""
    after = read_checkout(root)
    return before if after == before else Checkout(reason="the checkout changed while the run went on")


def _seal(folder: Path, summary: Summary, checkout: Checkout) -> None:
    """The last file of a run: the hash of every other one."""
    seal = Seal(
        run=summary.run,
        profile=summary.profile,
        orbit_version=summary.orbit_version,
        image=summary.image_digest,
        checkout=checkout,
        files={},
        sealed="",
    )
    write_seal(folder, seal)


def _run_stages(run: Run) -> tuple[list[StageRecord], BaseException | None]:
    records: list[StageRecord] = []
    failure: BaseException | None = None
    for number, (name, work) in enumerate(STAGES, start=1):
        if failure is not None:
            record = StageRecord(
                stage=name,
                result=Result.SKIPPED,
                reason="an earlier stage failed",
                started=utc_now().isoformat(),
                seconds=0.0,
            )
        else:
            record, failure = _run_stage(run, name, work)
        write_stage(run.folder, number, record)
        records.append(record)
    return records, failure


def _run_stage(run: Run, name: str, work: Callable[[Run], Outcome]) -> tuple[StageRecord, BaseException | None]:
    run.progress.step(f"[{name}]")
    started = utc_now().isoformat()
    outcome: Outcome | None = None
    failure: BaseException | None = None
    result, reason = Result.PASSED, ""
    with Meter() as meter:
        try:
            outcome = work(run)
        except StageSkipped as skip:
            result, reason = Result.SKIPPED, str(skip)
        except (OrbitError, OSError) as error:
            result, reason, failure = Result.FAILED, str(error), error
        except KeyboardInterrupt as error:
            result, reason, failure = Result.FAILED, "interrupted", error
    if outcome is not None and any(finding.fatal for finding in outcome.findings):
        fatal = [finding for finding in outcome.findings if finding.fatal]
        result, reason = Result.FAILED, f"{len(fatal)} finding(s)"
        failure = CheckFailed(
            "\n".join(
                [f"{name}: {len(fatal)} finding(s)", *(f"  {f.rule} {f.subject}: {f.message}" for f in fatal[:20])]
            ),
            fix=fatal[0].fix,
        )
    record = StageRecord(
        stage=name,
        result=result,
        reason=reason,
        reused=outcome.reused if outcome else False,
        inputs=outcome.inputs if outcome else {},
        outputs=outcome.outputs if outcome else {},
        findings=outcome.findings if outcome else (),
        skipped=outcome.skipped if outcome else (),
        tools=outcome.tools if outcome else {},
        started=started,
        seconds=meter.seconds,
        peak_memory_bytes=meter.peak_bytes,
    )
    state = result.value + (", reused" if record.reused else "") + (f": {reason}" if result is Result.SKIPPED else "")
    run.progress.step(f"[{name}] {state} in {format_seconds(record.seconds)}")
    return record, failure


def _lock_stage(run: Run) -> Outcome:
    report = check_lock(run.profile, run.root)
    return Outcome(
        inputs={"profile": content_key(run.profile)},
        outputs={"lock": report.lock_sha256, "packages": report.packages},
        findings=report.findings,
    )


def _kernels_stage(run: Run) -> Outcome:
    house = build_kernels(
        run.profile, run.root, run.store, tier=run.options.kernels, progress=run.progress, limit=run.options.limit
    )
    run.wheelhouse = house
    built = [wheel.manifest for wheel in house.wheels]
    verified = [wheel.manifest for wheel in house.verified]
    dump_json(run.folder / KERNELS_FILE, KernelManifests(manifests=(*built, *verified)))
    return Outcome(
        inputs={"tier": run.options.kernels, "archs": list(run.profile.target_archs())},
        outputs={
            "wheels": len(house.wheels),
            "built_now": sum(not wheel.reused for wheel in house.wheels),
            "verified": len(house.verified),
            "manifest": house.manifest_hash,
            "sha256": {wheel.dist: wheel.sha256 for wheel in house.wheels},
        },
        reused=all(wheel.reused for wheel in house.wheels) and all(wheel.reused for wheel in house.verified),
        skipped=house.skipped,
    )


def _environment_stage(run: Run) -> Outcome:
    assert run.wheelhouse is not None
    entry = create_environment(run.profile, run.root, run.wheelhouse, run.store, progress=run.progress)
    run.environment = entry
    return Outcome(inputs=entry.record.inputs, outputs=entry.record.outputs, reused=entry.reused)


def _audit_stage(run: Run) -> Outcome:
    """Prove the environment; redone daily and when it, the expectations or the rules changed."""
    assert run.environment is not None
    prefix = run.environment.path / "prefix"
    return _audited(
        run,
        {"environment": run.environment.record.key},
        lambda: audit_environment(prefix, run.profile, progress=run.progress, cache=run.store.root / "facts"),
        "audit.json",
    )


def _image_audit_stage(run: Run) -> Outcome:
    """Prove the finished image: what the base and the joining of layers add to the environment is in no other report.

    Layers are known by their digest: one that was read before is not read again.
    """
    assert run.image is not None
    target = detect(str(run.folder / "image"))
    options = AuditOptions(run.profile, cache=run.store.root / "facts")
    return _audited(
        run,
        {"image": run.image.digest},
        lambda: audit_target(target, options, run.progress),
        "image-audit.json",
    )


def _audited(run: Run, subject: dict[str, Any], audit: Callable[[], TargetReport], file: str) -> Outcome:
    """The report on ``subject`` as ``file`` of the run; from the store when it, the date and what judges are equal."""
    inputs = {
        **subject,
        "profile": content_key(run.profile),
        "date": utc_now().date().isoformat(),  # waivers expire
        "rules": tree_hash(PACKAGE / "audit"),
        "data": tree_hash(run.root / "kernels" / "expectations"),
        "capabilities": sha256_file(run.root / "kernels" / "capabilities.toml"),
    }

    def work(folder: Path) -> dict[str, Any]:
        report = audit()
        dump_json(folder / "audit.json", report)
        return {"seconds": report.seconds}

    entry = run.store.obtain("audit", inputs, work)
    report = load_json(entry.path / "audit.json", TargetReport)
    dump_json(run.folder / file, report)
    return Outcome(inputs=inputs, outputs=report.counts(), reused=entry.reused, findings=report.findings)


def _image_stage(run: Run) -> Outcome:
    assert run.environment is not None
    assert run.wheelhouse is not None
    image = build_image(
        run.profile,
        run.root,
        run.environment,
        run.wheelhouse,
        run.store,
        out=run.folder / "image",
        progress=run.progress,
    )
    run.image = image
    return Outcome(
        inputs={"environment": run.environment.record.key, "kernels": run.wheelhouse.manifest_hash},
        outputs={
            "digest": image.digest,
            "pull_bytes": sum(layer.size for layer in image.layers),
            "layers": {layer.name: layer.digest for layer in image.layers},
        },
        reused=all(layer.reused for layer in image.layers),
    )


def _sbom_stage(run: Run) -> Outcome:
    """Write down what the image holds, read from the image, and count it against what should be in it."""
    assert run.image is not None
    assert run.wheelhouse is not None
    layout = run.folder / "image"
    manifests = tuple(wheel.manifest for wheel in run.wheelhouse.wheels)
    inputs = {
        "image": run.image.digest,
        "kernels": run.wheelhouse.manifest_hash,
        "code": tree_hash(PACKAGE / "release" / "sbom"),
        "licences": sha256_file(run.root / "env" / "licenses.toml"),
    }

    def work(folder: Path) -> dict[str, Any]:
        facts = run.store.root / "facts"
        result = write_sboms(layout, folder, cache=facts, progress=run.progress, manifests=manifests)
        dump_json(folder / "result.json", result)
        return {"components": result.components, "checked": result.checked}

    entry = run.store.obtain("sbom", inputs, work)
    for name in FILES.values():
        link_or_copy(entry.path / name, run.folder / name)
    result = load_json(entry.path / "result.json", SbomResult)
    return Outcome(inputs=inputs, outputs=entry.record.outputs, reused=entry.reused, findings=result.findings)


def _smoke_stage(run: Run) -> Outcome:
    if not run.options.smoke:
        raise StageSkipped("--no-smoke was given")
    assert run.image is not None
    report = run_smoke(
        run.profile,
        run.folder / "image",
        run.profile.smoke,
        run.store,
        engine=run.options.engine,
        progress=run.progress,
    )
    dump_json(run.folder / "smoke.json", report)
    if not report.runs:
        raise MissingError(
            "smoke: nothing could be run: " + "; ".join(sorted({part.reason for part in report.skipped()})),
            fix="install bubblewrap or start a docker engine; --no-smoke ships without (and says so)",
        )
    return Outcome(
        inputs={"image": run.image.digest, "lists": list(run.profile.smoke)},
        outputs=report.counts(),
        reused=report.reused,
        findings=report.findings(),
        skipped=report.skipped(),
    )


STAGES: tuple[tuple[str, Callable[[Run], Outcome]], ...] = (
    ("lock", _lock_stage),
    ("kernels", _kernels_stage),
    ("environment", _environment_stage),
    ("audit", _audit_stage),
    ("image", _image_stage),
    ("image-audit", _image_audit_stage),
    ("sbom", _sbom_stage),
    ("smoke", _smoke_stage),
)


def plan(profile: Profile, root: Path, store: Store, options: Options) -> dict[str, str]:
    """What :func:`ship` would do, stage by stage, without doing it."""
    kernels = make_plan(profile, root, store, tier=options.kernels)
    todo = kernels.todo()
    return {
        "lock": f"check uv.lock for profile {profile.name}",
        "kernels": f"build {', '.join(todo)}" if todo else "nothing to build: every wheel is in the store",
        "environment": f"install extras {list(profile.extras)} under {profile.image.prefix}",
        "audit": f"targets {', '.join(target.name for target in profile.targets)}",
        "image": f"{profile.image.name}, base {profile.image.base}",
        "image-audit": "the finished image, by the same rules",
        "sbom": "what the image holds, in CycloneDX and SPDX",
        "smoke": ", ".join(profile.smoke) if options.smoke else "skipped: --no-smoke",
    }


def _new_run_folder(dist: Path, name: str) -> Path:
    for number in range(100):
        folder = dist / (name if number == 0 else f"{name}.{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise RefusedError(
        f"{dist}: a hundred runs named {name} exist already", fix="remove old runs or name another --dist"
    )


def _point_latest(dist: Path, profile_name: str, folder: Path) -> None:
    """Make ``<dist>/<profile>`` a link to the newest run."""
    link = dist / profile_name
    fresh = dist / f".{profile_name}.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(folder.name)
    os.replace(fresh, link)
