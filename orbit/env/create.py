"""Create an environment: interpreter, the lock's wheels and Orbit's own, compiled and sealed, as one store entry.

``entry.path / "prefix"`` is the environment: real files only, the interpreter inside, nothing in it that says where it
was made. It runs from any folder; compiled files and configuration name the place it has in the image.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbit.core.console import Progress
from orbit.core.files import remove_tree, require_free, sha256_file
from orbit.core.records import content_key, dump_json
from orbit.core.store import Entry, Store
from orbit.env import bytecode, install, installed, interpreter, record, relocate, scripts, tree, verify
from orbit.env.cuda_home import find_toolkit, link_farm
from orbit.errors import CheckFailed, RefusedError
from orbit.profile.lock import Lock, read_lock
from orbit.profile.model import Profile

FORMAT = 3
"""Raised when the shape of an environment changes."""
KIND = "env"
UNPACKED_RATIO = 2.4
"""Installed and compiled bytes for each byte of wheel (measured on cu130: 4.44 GB of wheels, docs/env.md)."""
INTERPRETER_BYTES = 100_000_000
SITE = "lib/python3.12/site-packages"


def create_environment(
    profile: Profile, root: Path, wheelhouse: record.Wheelhouse, store: Store, *, progress: Progress
) -> Entry:
    """The environment of ``profile`` for the lock in ``root`` and these wheels: found in the store, or made.

    A stored environment that was touched since (see :mod:`orbit.env.tree`) is removed and made again. Outputs of the
    entry: ``identity``, ``distributions``, ``files``, ``bytes``, ``uncompiled``, ``contested``, ``skipped`` and
    ``seconds`` by step.

    Raises :class:`InputError` (wrong Python, damaged wheel, lock and profile disagree), :class:`MissingError` (no
    network, an interpreter that cannot be copied), :class:`RefusedError` (no room).
    """
    source = interpreter.running()
    interpreter.check_source(source, profile.python)
    lock = read_lock(root / "uv.lock")
    plan = install.make_plan(profile, lock, wheelhouse)
    python = interpreter.obtain_interpreter(store, source, profile.image.prefix)
    inputs = environment_inputs(profile, lock, plan, python)
    found = store.find(KIND, inputs)
    if found is not None:
        harm = tree.damage(found.path / "prefix", found.path / tree.MANIFEST)
        if not harm:
            return found
        progress.step(f"environment {found.record.key[:12]} in the store is damaged ({harm}): made again")
        store.discard(found.path)
    install.check_wheels(plan.built)
    check_room(plan, store)
    parts = Parts(profile=profile, lock=lock, plan=plan, python=python)
    return store.obtain(KIND, inputs, lambda folder: _build(parts, content_key(inputs), folder, progress))


@dataclass(frozen=True, slots=True)
class Parts:
    """What an environment is made of."""

    profile: Profile
    lock: Lock
    plan: install.Plan
    python: Entry


def environment_inputs(profile: Profile, lock: Lock, plan: install.Plan, python: Entry) -> dict[str, Any]:
    """Everything an environment is made of; its content key is the environment's identity."""
    return {
        "format": FORMAT,
        "profile": profile.name,
        "lock": lock.sha256,
        "extras": list(profile.extras),
        "prefix": profile.image.prefix,
        "interpreter": python.record.outputs["tree"],
        "compiler": sha256_file(bytecode.WORKER),
        "wheels": [[wheel.dist, wheel.version, wheel.sha256] for wheel in plan.built],
        "skipped": [[skip.what, skip.reason, skip.estimate] for skip in plan.skipped],
    }


def check_room(plan: install.Plan, store: Store) -> None:
    """Refuse before anything is written when the disk cannot hold the environment (and uv's cache, if that is new)."""
    need = needed_bytes(plan)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "uv"
    if not cache.is_dir() and _same_disk(cache, store.root):
        need += int(plan.download_bytes * UNPACKED_RATIO)
    require_free(store.root, need, "the environment")


def needed_bytes(plan: install.Plan) -> int:
    """About how large the environment will be."""
    built = sum(os.path.getsize(wheel.path) for wheel in plan.built)
    return int((plan.download_bytes + built) * UNPACKED_RATIO) + INTERPRETER_BYTES


def _same_disk(one: Path, other: Path) -> bool:
    def device(path: Path) -> int:
        return path.stat().st_dev if path.exists() else device(path.parent)

    return device(one) == device(other)


class Clock:
    """Seconds of each step, and a line when it begins."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, text: str) -> Iterator[None]:
        """Time a block as ``name`` and announce it with ``text``."""
        self.progress.step(text)
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 2)


def _build(parts: Parts, identity: str, folder: Path, progress: Progress) -> dict[str, Any]:
    """Make the environment in ``folder``; return the entry's outputs."""
    plan = parts.plan
    clock = Clock(progress)
    prefix = folder / "prefix"
    site = prefix / SITE
    with clock.step("interpreter", f"interpreter: CPython {parts.python.record.outputs['version']}"):
        interpreter.copy_interpreter(parts.python, prefix)
        site.mkdir(exist_ok=True)
    with clock.step("install", f"installing {len(plan.prebuilt)} prebuilt and {len(plan.built)} built wheels"):
        contested = _install(plan, prefix, site, folder, python=parts.profile.python, progress=progress)
    with clock.step("compile", "byte-compiling on all cores"):
        uncompiled = bytecode.compile_tree(prefix, parts.profile.image.prefix, progress=progress)
    with clock.step("records", "scripts, RECORD files, CUDA_HOME"):
        _tidy(prefix, site, contested)
    notes = describe(parts, identity, installed.as_contested(site, prefix, contested), uncompiled)
    dump_json(prefix / record.RECORD_PATH, notes)
    with clock.step("check", "checking that nothing names this machine"):
        check_names_no_host(prefix, site, plan, host_paths(folder, parts.python))
    with clock.step("seal", "fixing modes and times"):
        sealed = tree.seal(prefix)
        tree.write_manifest(prefix, folder / tree.MANIFEST)
    return {
        "identity": identity,
        "distributions": len(notes.distributions),
        "files": sealed.num_files,
        "bytes": sealed.num_bytes,
        "uncompiled": len(uncompiled),
        "contested": len(contested),
        "skipped": len(plan.skipped),
        "seconds": clock.seconds,
    }


def describe(
    parts: Parts,
    identity: str,
    contested: tuple[record.Contested, ...],
    uncompiled: tuple[bytecode.Uncompiled, ...],
) -> record.EnvironmentRecord:
    """What the environment will say of itself."""
    python = parts.python.record.outputs
    return record.EnvironmentRecord(
        schema=record.SCHEMA,
        identity=identity,
        profile=parts.profile.name,
        lock=parts.lock.sha256,
        prefix=parts.profile.image.prefix,
        python=python["version"],
        interpreter=python["tree"],
        system_libraries=tuple(python["system_libraries"]),
        distributions=parts.plan.distributions(),
        skipped=parts.plan.skipped,
        contested=contested,
        uncompiled=tuple(failure.path for failure in uncompiled),
        kernels=record.kernels_of(parts.plan.built),
    )


def _install(
    plan: install.Plan, prefix: Path, site: Path, folder: Path, *, python: str, progress: Progress
) -> dict[str, tuple[str, ...]]:
    """Install everything; return the contested paths. The last owner by name writes each of them last."""
    scratch = folder / "scratch"
    scratch.mkdir()
    install.install_prebuilt(plan, prefix, scratch)
    install.install_built(plan.built, prefix)
    dists = {dist.name: dist for dist in installed.read_installed(site)}
    contested = installed.contested_paths(dists.values())
    for path, names in sorted(contested.items()):
        if installed.digest_of(site / path)[0] != installed.stated(dists[names[-1]], path):
            install.reinstall(plan, names[-1], prefix, scratch)
    _mend(plan, prefix, python, scratch=scratch, contested=contested, progress=progress)
    for leftover in scratch.iterdir():
        leftover.unlink()
    scratch.rmdir()
    return contested


def _mend(
    plan: install.Plan, prefix: Path, python: str, *, scratch: Path, contested: Container[str], progress: Progress
) -> None:
    """Install again, around uv's cache, what is not what its wheel states. Raises :class:`CheckFailed` if in vain."""
    wrong = verify.drifted(prefix, python, contested=contested)
    for name, paths in wrong.items():
        progress.step(f"{name}: {paths[0]} is not what the wheel holds (uv's cache was written to); fetching it again")
        install.reinstall(plan, name, prefix, scratch, cached=False)
    if wrong and (left := verify.drifted(prefix, python, contested=contested)):
        name, paths = next(iter(left.items()))
        raise CheckFailed(
            f"{name}: {len(paths)} installed file(s) differ from the wheel even when fetched again, e.g. {paths[0]}",
            fix="something on this machine edits installed files while they are written: find and stop it",
        )


def _tidy(prefix: Path, site: Path, contested: dict[str, tuple[str, ...]]) -> None:
    """Make what installers left true, relocatable and the same on every machine."""
    dists = installed.read_installed(site)
    installed.drop_host_notes(dists)
    rewritten = scripts.relocate_scripts(prefix)
    changed = {os.path.relpath(prefix / "bin" / name, site) for name in rewritten}
    lost: dict[str, set[str]] = {}
    for path, names in contested.items():
        for name in names[:-1]:
            lost.setdefault(name, set()).add(path)
    installed.rewrite(site, dists, changed=changed, lost=lost)
    if find_toolkit(site) is not None:
        link_farm(site, prefix / "cuda", relative=True)


def host_paths(folder: Path, python: Entry) -> tuple[bytes, ...]:
    """Paths of this machine that must not be in an environment: where it is made and where its Python came from."""
    found = [os.fspath(folder), *python.record.inputs["found_at"]]
    return tuple(sorted({os.fsencode(path) for path in found}))


def check_names_no_host(prefix: Path, site: Path, plan: install.Plan, needles: tuple[bytes, ...]) -> None:
    """Raise :class:`CheckFailed` when a file made here names this machine.

    Looked at: the interpreter, scripts, compiled files, RECORDs and everything of a wheel built here. Files that come
    unchanged from a published wheel cannot know this machine.
    """
    own = {dist.name for dist in plan.distributions() if dist.origin == "wheelhouse"}
    published = frozenset(
        os.path.normpath(f"{SITE}/{line.path}")
        for dist in installed.read_installed(site)
        if dist.name not in own
        for line in dist.lines
        if line.digest and not line.path.startswith("../")
    )
    left = list(relocate.find_paths(prefix, needles, skip=published))
    if left:
        shown = "\n".join(f"  | {place}" for place in left[:10])
        raise CheckFailed(
            f"{len(left)} places in the environment name paths of this machine:\n{shown}",
            fix="for a wheel built here, its recipe must not compile its build folder in; else report it",
        )


def copy_out(prefix: Path, target: Path, *, progress: Progress) -> None:
    """Copy a finished environment to the new folder ``target``, times and modes included; nothing half-made stays.

    Raises :class:`RefusedError` when ``target`` exists and is not an empty folder, or when the disk is too small.
    """
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise RefusedError(f"{target}: exists already", fix="name a new folder, or remove that one")
    size = sum(int(line.split("\t")[2]) for line in tree.manifest_lines(prefix))
    target = target.absolute()
    require_free(target.parent, size, "the copy of the environment")
    progress.step(f"copying {size / 1e9:.1f} GB to {target}")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        shutil.copytree(prefix, partial, symlinks=True)
        tree.seal(partial)
        if target.exists():
            target.rmdir()
        os.rename(partial, target)
    except BaseException:
        remove_tree(partial)
        raise
