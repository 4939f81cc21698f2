"""All kernels of a profile: built once or verified, several packages at a time, kept in the store.

Every compiler step of every package asks one job server, so the machine is full and never overfull. A package that
fails stops nobody else; what its compilers had finished is in the unit cache and is not done again.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from orbit.audit.known.policy import load_policy
from orbit.core.console import Progress
from orbit.core.files import remove_tree
from orbit.core.findings import Skipped
from orbit.core.records import Record, content_key, load_json
from orbit.core.store import Entry, Store
from orbit.kernels.backend import Bench, build_files
from orbit.kernels.buildenv import SITE, build_environment
from orbit.kernels.finish import finish
from orbit.kernels.fronts import Settings
from orbit.kernels.gc import UNITS
from orbit.kernels.host_toolkit import require_toolkit, wants_toolkit
from orbit.kernels.jobs.costs import package_cost, save_cost
from orbit.kernels.jobs.estimates import Estimator, fallback, load_known, remembering
from orbit.kernels.jobs.machine import memory_total_bytes, usable_cores
from orbit.kernels.jobs.policy import GIB, Limits, inflight, machine_limits, packages_at_once
from orbit.kernels.jobs.progress import reported
from orbit.kernels.jobs.schedule import Done, Job, failure, run_jobs
from orbit.kernels.jobs.server import JobServer
from orbit.kernels.manifest import BuildManifest
from orbit.kernels.plan import KIND, MANIFEST, Check, Item, Plan, make_plan
from orbit.kernels.prebuilt.verify import VerifiedWheel, ensure_verified
from orbit.kernels.requires import check_requirements
from orbit.kernels.shim.config import Part
from orbit.kernels.sources import obtain, unpack
from orbit.kernels.workspace import Workspace, network_isolation, ninja_count
from orbit.profile.lock import Lock
from orbit.profile.model import Profile
from orbit.profile.place import profile_lock


class BuiltWheel(Record, frozen=True, kw_only=True):
    """One finished wheel."""

    recipe: str
    dist: str
    version: str
    path: str
    """Absolute path in the store."""
    sha256: str
    manifest: BuildManifest
    reused: bool
    """True when it was in the store and nothing was built."""
    seconds: float
    """How long the build took when it was really done."""


class Wheelhouse(Record, frozen=True, kw_only=True):
    """All wheels of a profile, and what was left out."""

    wheels: tuple[BuiltWheel, ...]
    verified: tuple[VerifiedWheel, ...] = ()
    """Published wheels that the environment takes from the lock, and what was proved of them."""
    skipped: tuple[Skipped, ...]
    manifest_hash: str
    """Identity of all manifests together: the kernel manifest hash of records and image labels."""


class Compiled(Record, frozen=True, kw_only=True):
    """A part of a build: nothing but the unit cache is richer."""

    recipe: str
    steps: int
    """Compiler steps that were really done."""
    cached: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Limit:
    """What the caller allows; None: what the machine has."""

    jobs: int | None = None
    """Compiler steps at once."""
    memory_gib: float | None = None

    def limits(self) -> Limits:
        """Cores and memory for the job server."""
        total = memory_total_bytes() if self.memory_gib is None else int(self.memory_gib * GIB)
        return machine_limits(self.jobs or usable_cores(), total)


def build_kernels(
    profile: Profile,
    root: Path,
    store: Store,
    *,
    tier: str,
    progress: Progress,
    limit: Limit | None = None,
    names: tuple[str, ...] = (),
) -> Wheelhouse:
    """Build and verify what is missing and return everything.

    ``root`` is the checkout. ``tier`` is ``core`` or ``all``; with ``core`` the extended recipes come back as skipped.
    ``names`` asks for these recipes alone.

    When one recipe fails the others go on; then its error is raised: :class:`CommandFailed` when a build fails (its log
    is kept and named), :class:`CheckFailed` when requested, compiled and found architectures differ,
    :class:`MissingError` without compiler, network or source; several as one
    :class:`orbit.kernels.jobs.schedule.SeveralFailed`.

    Expectations that contradict the profile end it before anything is compiled, as :class:`InputError`.
    """
    plan = make_plan(profile, root, store, tier=tier, names=names)
    for skip in plan.skipped:
        progress.step(f"{skip.what}: skipped ({skip.reason})")
    with _yard(plan, profile, root, store, progress=progress, limit=limit or Limit()) as yard:
        jobs: list[Job[BuiltWheel | VerifiedWheel]] = [_job(item, yard) for item in plan.items]
        jobs += [_check_job(check, yard) for check in plan.checks]
        outcomes = run_jobs(jobs, at_once=packages_at_once(yard.limits.cores), progress=progress)
    for note in store.notes:
        progress.step(f"shared results: {note}")
    error = failure(outcomes)
    if error is not None:
        raise error
    results = [outcome.value for outcome in outcomes if isinstance(outcome, Done)]
    return Wheelhouse(
        wheels=tuple(each for each in results if isinstance(each, BuiltWheel)),
        verified=tuple(each for each in results if isinstance(each, VerifiedWheel)),
        skipped=plan.skipped,
        manifest_hash=content_key([each.manifest for each in results]),
    )


def compile_part(
    profile: Profile,
    root: Path,
    store: Store,
    part: Part,
    *,
    tier: str,
    progress: Progress,
    limit: Limit | None = None,
    names: tuple[str, ...] = (),
) -> tuple[Compiled, ...]:
    """Compile one share of the wheels that are not in the store, into the unit cache; makes no wheel.

    Machines that share ``$ORBIT_SHARED``, or whose unit caches are copied together, so share one build: the machine
    that builds without a part afterwards finds every step done. Raises as :func:`build_kernels` does.
    """
    plan = make_plan(profile, root, store, tier=tier, names=names)
    with _yard(plan, profile, root, store, progress=progress, limit=limit or Limit()) as yard:
        jobs = [
            Job(item.recipe.name, item.recipe.core_hours, functools.partial(_compile, item, yard, part))
            for item in plan.items
            if not item.cached
        ]
        outcomes = run_jobs(jobs, at_once=packages_at_once(yard.limits.cores), progress=progress)
    error = failure(outcomes)
    if error is not None:
        raise error
    return tuple(outcome.value for outcome in outcomes if isinstance(outcome, Done))


def rebuild(item: Item, profile: Profile, root: Path, store: Store, *, folder: Path, progress: Progress) -> Path:
    """Build a recipe again in another folder and without any cache, into ``folder``; the wheel's path."""
    anew = msgspec.structs.replace(item, cached="")
    plan = Plan(profile=profile.name, items=(anew,), checks=(), skipped=())
    with _yard(plan, profile, root, store, progress=progress, limit=Limit()) as yard:
        outputs = _build(anew, yard, folder, cache=False)
    return folder / str(outputs["wheel"])


def load_built(recipe: str, entry: Entry) -> BuiltWheel:
    """The wheel of a store entry."""
    manifest = load_json(entry.path / MANIFEST, BuildManifest)
    return BuiltWheel(
        recipe=recipe,
        dist=manifest.dist,
        version=manifest.version,
        path=str(entry.path / manifest.wheel),
        sha256=manifest.wheel_sha256,
        manifest=manifest,
        reused=entry.reused,
        seconds=entry.record.seconds,
    )


@dataclass(frozen=True, slots=True)
class _Yard:
    """What every build of a run shares."""

    profile: Profile
    lock: Lock
    root: Path
    store: Store
    progress: Progress
    limits: Limits
    server: JobServer


@contextlib.contextmanager
def _yard(
    plan: Plan, profile: Profile, root: Path, store: Store, *, progress: Progress, limit: Limit
) -> Iterator[_Yard]:
    if plan.todo():
        load_policy(profile)  # what results are judged by; if it contradicts the profile, say so before hours of work
    limits = limit.limits()
    server = JobServer(limits, progress=progress)
    with contextlib.ExitStack() as stack:
        if any(not item.cached for item in plan.items):
            stack.enter_context(server)
            stack.enter_context(reported(server.view, progress))
        yield _Yard(profile, profile_lock(profile, root), root, store, progress, limits, server)


def _job(item: Item, yard: _Yard) -> Job[BuiltWheel | VerifiedWheel]:
    def work() -> BuiltWheel:
        entry = yard.store.obtain(KIND, item.inputs, lambda folder: _build(item, yard, folder, cache=True))
        how = "nothing to do, it is in the store" if entry.reused else f"built in {entry.record.seconds:.0f} s"
        yard.progress.step(f"{item.recipe.name} {item.source.version}: {how}")
        return load_built(item.recipe.name, entry)

    return Job(item.recipe.name, 0.0 if item.cached else item.recipe.core_hours, work)


def _check_job(check: Check, yard: _Yard) -> Job[BuiltWheel | VerifiedWheel]:
    def work() -> VerifiedWheel:
        done = ensure_verified(check.recipe, yard.profile, yard.lock, yard.store, yard.progress)
        how = "nothing to do, the answer is in the store" if done.reused else f"verified in {done.seconds:.0f} s"
        yard.progress.step(f"{check.recipe.name} {done.version}: {how}")
        return done

    return Job(check.recipe.name, 0.0 if check.cached else check.recipe.core_hours, work)


def _build(item: Item, yard: _Yard, folder: Path, *, cache: bool) -> dict[str, Any]:
    with _space(item, yard, _settings(item, yard, cache=cache)) as bench:
        tree = build_files(bench)
        manifest = finish(item, bench.space, tree, folder, profile=yard.profile)
        shutil.copyfile(bench.space.log, folder / "build.log")
        if bench.space.units.exists():
            shutil.copyfile(bench.space.units, folder / bench.space.units.name)
    return {"wheel": manifest.wheel, "sha256": manifest.wheel_sha256}


def _compile(item: Item, yard: _Yard, part: Part) -> Compiled:
    with _space(item, yard, _settings(item, yard, cache=True, part=part)) as bench:
        build_files(bench)
    lines = yard.server.lines(item.recipe.name)
    return Compiled(
        recipe=item.recipe.name,
        steps=sum(not line.cached for line in lines),
        cached=sum(line.cached for line in lines),
        cpu_s=round(sum(line.report.cpu_s for line in lines if line.report), 3),
    )


def _settings(item: Item, yard: _Yard, *, cache: bool, part: Part | None = None) -> Settings:
    shared = yard.store.shared
    return Settings(
        recipe=item.recipe.name,
        jobs=yard.server.path,
        inflight=inflight(yard.limits.cores),
        units=yard.store.root / UNITS if cache else None,
        shared=shared.root / UNITS if cache and shared else None,
        wheel_key=item.compile_key if cache else "",
        part=part,
    )


@contextlib.contextmanager
def _space(item: Item, yard: _Yard, settings: Settings) -> Iterator[Bench]:
    """A folder with the source laid out and the fronts in place, registered with the job server; gone afterwards."""
    recipe = item.recipe
    got = obtain(recipe, item.source, yard.store, yard.root, yard.progress)
    environment = build_environment(recipe.group, yard.lock, yard.store, yard.progress).path / "env"
    space = Workspace(yard.store.scratch(f"build-{recipe.name}"), _log(item, yard))
    try:
        check_requirements(recipe, environment / SITE)
        toolkit = require_toolkit(recipe, yard.profile).path if wants_toolkit(recipe, yard.profile) else None
        space.prepare(environment, item.pairs, settings, toolkit)
        project = unpack(got, space.source)
        yard.progress.step(
            f"{recipe.name} {item.source.version}: building for {', '.join(real for _, real in item.pairs)}, "
            f"log: {space.log}"
        )
        began = time.monotonic()
        with _registered(item, yard, space):
            yield Bench(item, space, project, settings.inflight)
        took, lines = time.monotonic() - began, yard.server.lines(recipe.name)
        save_cost(yard.store.root, package_cost(recipe.name, lines, wall_s=took, cores=yard.limits.cores))
    finally:
        remove_tree(space.root)


@contextlib.contextmanager
def _registered(item: Item, yard: _Yard, space: Workspace) -> Iterator[None]:
    recipe = item.recipe
    units = max(1, recipe.device_units + recipe.host_units)
    default = fallback(recipe.memory_gib, recipe.core_hours, units, len(item.pairs))
    estimator = Estimator(load_known(yard.store.root, recipe.name), default)
    with (
        remembering(yard.store.root, recipe.name, lambda: yard.server.lines(recipe.name)),
        yard.server.build(estimator, lambda: ninja_count(space.log)),
    ):
        yield


def _log(item: Item, yard: _Yard) -> Path:
    log = yard.store.root / "logs" / f"{item.recipe.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    cut_off = "a network namespace of its own" if network_isolation() else "proxies that lead nowhere (no namespaces)"
    log.write_text(f"orbit: {item.recipe.name} {item.source.version}; no network by {cut_off}\n", encoding="utf-8")
    return log
