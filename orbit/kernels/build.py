"""Build the wheels of a profile's kernels: once, behind the compiler shim, proved by a manifest, kept in the store."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbit.audit.binary.fatbin import read_containers
from orbit.core.console import Progress
from orbit.core.files import remove_tree, sha256_file
from orbit.core.findings import Finding, Severity, Skipped
from orbit.core.proc import run
from orbit.core.records import Record, content_key, dump_json, load_json
from orbit.core.store import Entry, Store
from orbit.errors import CheckFailed, InputError
from orbit.kernels import manifest as manifests
from orbit.kernels.buildenv import SITE, build_environment
from orbit.kernels.manifest import Binary, BuildManifest
from orbit.kernels.plan import KIND, MANIFEST, Item, make_plan
from orbit.kernels.recipe import render_env
from orbit.kernels.sources import obtain, unpack
from orbit.kernels.wheels.archive import elf_names, file_names, unpack_wheel, write_wheel
from orbit.kernels.wheels.contents import disorders, leaks, missing_artifacts, version_of
from orbit.kernels.wheels.run_paths import set_run_paths
from orbit.kernels.wheels.tags import facts_of, glibc_need, retag, wheel_name
from orbit.kernels.workspace import Workspace
from orbit.profile.lock import Lock, read_lock
from orbit.profile.model import Profile

BACKEND = "import sys; from setuptools.build_meta import __legacy__ as backend; backend.build_wheel(sys.argv[1])"
"""The legacy backend is the modern one plus the source folder on sys.path, which setup.py files count on."""
PYTHON = sys.version_info[:2]


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
    skipped: tuple[Skipped, ...]
    manifest_hash: str
    """Identity of all manifests together: the kernel manifest hash of records and image labels."""


def build_kernels(
    profile: Profile, root: Path, store: Store, *, tier: str, jobs: int | None, progress: Progress
) -> Wheelhouse:
    """Build what is missing, one recipe after another, and return everything.

    ``root`` is the checkout. ``tier`` is ``core`` or ``all``; with ``core`` the extended recipes come back as skipped.
    ``jobs`` overrides the number of compile jobs that memory and cores allow.

    Raises :class:`CommandFailed` when a build fails (its log is kept and named), :class:`CheckFailed` when requested,
    compiled and found architectures differ, :class:`MissingError` without compiler or network.
    """
    plan = make_plan(profile, root, store, tier=tier, jobs=jobs)
    yard = _Yard(read_lock(root / "uv.lock"), root, store, progress)
    for skip in plan.skipped:
        progress.step(f"{skip.what}: skipped ({skip.reason})")
    wheels = []
    for item in plan.items:
        entry = store.obtain(KIND, item.inputs, functools.partial(_work, item, yard))
        wheels.append(load_built(item.recipe.name, entry))
        how = "nothing to do, it is in the store" if entry.reused else f"built in {entry.record.seconds:.0f} s"
        progress.step(f"{item.recipe.name} {item.source.version}: {how}")
    return Wheelhouse(
        wheels=tuple(wheels),
        skipped=plan.skipped,
        manifest_hash=content_key([wheel.manifest for wheel in wheels]),
    )


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

    lock: Lock
    root: Path
    store: Store
    progress: Progress


def _work(item: Item, yard: _Yard, folder: Path) -> dict[str, Any]:
    recipe = item.recipe
    environment = build_environment(recipe.group, yard.lock, yard.store, yard.progress).path / "env"
    log = yard.store.root / "logs" / f"{recipe.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    space = Workspace(yard.store.scratch(f"build-{recipe.name}"), log)
    try:
        space.prepare(environment, item.pairs)
        unpack(obtain(recipe, item.source, yard.store, yard.root, yard.progress), space.source)
        yard.progress.step(
            f"{recipe.name} {item.source.version}: building for {', '.join(real for _, real in item.pairs)} "
            f"with {item.jobs} job(s), about {recipe.core_hours:g} core-hours, log: {log}"
        )
        with space.watched(recipe.name, recipe.device_units, yard.progress):
            tree = _shared_object(item, space) if recipe.shared_object else _setuptools(item, space)
        manifest = _finish(item, space, tree, folder)
        shutil.copyfile(log, folder / "build.log")
        if space.units.exists():
            shutil.copyfile(space.units, folder / space.units.name)
    finally:
        remove_tree(space.root)
    return {"wheel": manifest.wheel, "sha256": manifest.wheel_sha256}


def _setuptools(item: Item, space: Workspace) -> Path:
    """Build an sdist with its own setup.py; the folder its wheel is unpacked to."""
    _run(item, space, [space.env / "bin" / "python", "-B", "-c", BACKEND, space.out])
    wheels = list(space.out.glob("*.whl"))
    if len(wheels) != 1:
        raise InputError(f"{item.recipe.name}: the build left {len(wheels)} wheels", fix=f"see {space.log}")
    tree = space.root / "wheel"
    unpack_wheel(wheels[0], tree)
    return tree


def _shared_object(item: Item, space: Workspace) -> Path:
    """Compile a local source into one shared object, beside its Python files; the folder of the wheel's files."""
    recipe, shared = item.recipe, item.recipe.shared_object
    assert shared is not None
    compile_flags = [*shared.compile_flags, "-Xcompiler", "-fPIC,-fvisibility=hidden"]
    objects = []
    for source in shared.sources:
        objects.append(f"{Path(source).stem}.o")
        _run(item, space, [space.cuda / "bin" / "nvcc", *compile_flags, "-c", source, "-o", objects[-1]])
    tree = space.root / "wheel"
    shutil.copytree(space.source / shared.package, tree / shared.package)
    library = tree / shared.output
    library.parent.mkdir(parents=True, exist_ok=True)
    link_flags = [f"-L{space.cuda}/lib64", "-lcudart_static", "-ldl", "-lpthread", "-lrt"]
    # libcudart_static is C++ inside: libstdc++ and libgcc_s stay dynamic, static ones would ask for a newer glibc
    hygiene = ["-Wl,--as-needed,--exclude-libs,ALL,-z,defs,-s"]
    _run(item, space, ["g++", "-shared", *objects, "-o", library, *link_flags, *hygiene])
    info = tree / f"{recipe.dist.replace('-', '_')}-{item.source.version}.dist-info"
    info.mkdir()
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: orbit\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n", encoding="utf-8"
    )
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {recipe.dist}\nVersion: {item.source.version}\nSummary: {shared.summary}\n"
        "License: Apache-2.0\nRequires-Python: >=3.9\n",
        encoding="utf-8",
    )
    return tree


def _run(item: Item, space: Workspace, argv: Sequence[str | os.PathLike[str]]) -> None:
    archs = tuple(real for _, real in item.pairs)
    run(
        argv,
        doing=f"build {item.recipe.name} {item.source.version}",
        cwd=space.source,
        env=space.variables(jobs=item.jobs, include=item.recipe.include, extra=render_env(item.recipe, archs)),
        log=space.log,
    )


def _finish(item: Item, space: Workspace, tree: Path, folder: Path) -> BuildManifest:
    """Clean the wheel, write it and its manifest into ``folder``; raise :class:`CheckFailed` on any difference."""
    recipe = item.recipe
    run_paths = set_run_paths(tree, space.env / SITE)
    retag(tree, PYTHON)
    found = _device_code(tree)
    name = wheel_name(tree)
    write_wheel(folder / name, tree)
    manifest = BuildManifest(
        recipe=recipe.name,
        dist=recipe.dist,
        version=version_of(tree),
        source=item.source,
        requested=tuple(f"{virtual}:{real}" for virtual, real in item.pairs),
        units=manifests.read_units(space.units),
        found=found,
        compiler=_compiler(space),
        host_compiler=str(item.inputs["host_compiler"]),
        python=str(item.inputs["python"]),
        group=recipe.group,
        closure=str(item.inputs["closure"]),
        env=dict(item.inputs["env"]),
        shim=str(item.inputs["shim"]),
        run_paths_removed={item.file: str(len(item.removed)) for item in run_paths if item.removed},
        run_paths_set={item.file: ":".join(item.result) for item in run_paths if item.added},
        wheel=name,
        wheel_sha256=sha256_file(folder / name),
    )
    findings = (*manifests.check(manifest, recipe), *_contents(item, space, tree))
    if any(finding.fatal for finding in findings):
        raise CheckFailed(
            "\n".join(
                [f"{recipe.name}: the build ended, but its result is not right"]
                + [f"  {f.rule} {f.subject}: {f.message} {f.evidence}" for f in findings]
            ),
            fix=next(finding.fix for finding in findings if finding.fatal),
        )
    dump_json(folder / MANIFEST, manifest)
    return manifest


def _device_code(tree: Path) -> tuple[Binary, ...]:
    """What the audit's reader sees in every binary of the wheel; also those without device code, for their glibc."""
    needs = {item.path: glibc_need(item) for item in facts_of(tree, PYTHON).objects}
    return tuple(
        manifests.summarise(name, read_containers(tree / name), needs.get(name, "")) for name in elf_names(tree)
    )


def _contents(item: Item, space: Workspace, tree: Path) -> tuple[Finding, ...]:
    def finding(rule: str, message: str, fix: str) -> Finding:
        return Finding(rule=rule, severity=Severity.ERROR, subject=item.recipe.name, message=message, fix=fix)

    found = [
        finding("kernel-artifact", f"no file matches {pattern}", "the build dropped it silently; see build.log")
        for pattern in missing_artifacts(file_names(tree), item.recipe.artifacts)
    ]
    found += [
        finding(
            "kernel-path",
            f"{name} holds {needle}, a path of this machine",
            "map or strip it: see Workspace.prefix_maps",
        )
        for name, needle in leaks(tree, host_paths(space))
    ]
    version = version_of(tree)
    if version != item.source.version:
        found.append(
            finding(
                "kernel-version", f"the wheel says {version}, its source is {item.source.version}", "fix the recipe"
            )
        )
    return (*found, *disorders(tree))


def host_paths(space: Workspace) -> tuple[str, ...]:
    """Paths that must not be in a wheel: the build's folder, and the interpreter's unless it is a system folder."""
    return (str(space.root), *(() if sys.base_prefix.startswith("/usr") else (sys.base_prefix,)))


def _compiler(space: Workspace) -> str:
    shown = run([space.cuda / "bin" / "nvcc", "--version"], doing="ask nvcc for its version")
    lines = [line for line in shown.stdout.decode().splitlines() if line.startswith("Cuda compilation tools")]
    return lines[0] if lines else "unknown"
