"""Create an environment: interpreter, the lock's wheels and Orbit's own, compiled and sealed, as one store entry.

``entry.path / "prefix"`` is the environment: real files only, the interpreter inside, nothing in it that says where it
was made. It runs from any folder; compiled files and configuration name the place it has in the image.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from orbit.core.amounts import format_bytes
from orbit.core.console import Progress
from orbit.core.files import remove_tree, require_free, sha256_file
from orbit.core.records import content_key
from orbit.core.store import Entry, Store
from orbit.env import bytecode, install, interpreter, record, tree
from orbit.env.assemble import Parts, build, makers
from orbit.env.takeover import Source, Unusable, Wanted, not_used, sources
from orbit.errors import RefusedError
from orbit.profile.lock import Lock
from orbit.profile.model import Profile
from orbit.profile.place import profile_lock

FORMAT = 3
"""Raised when the shape of an environment changes."""
KIND = "env"
UNPACKED_RATIO = 2.4
"""Installed and compiled bytes for each byte of wheel (measured on cu130: 4.44 GB of wheels, docs/env.md)."""
INTERPRETER_BYTES = 100_000_000
PATH_BYTES = 1024
"""Room for a file taken over: its name, its share of the folders (4 KiB each) and its lines in the entry's lists."""


def create_environment(
    profile: Profile, root: Path, wheelhouse: record.Wheelhouse, store: Store, *, progress: Progress
) -> Entry:
    """The environment of ``profile``, for its lock in ``root`` and these wheels: found in the store, or made.

    A stored environment that was touched since (see :mod:`orbit.env.tree`) is removed and made again. What an earlier
    environment has already is taken over from it (see :mod:`orbit.env.takeover`). Outputs of the entry: ``identity``,
    ``distributions``, ``taken_over``, ``files``, ``bytes``, ``uncompiled``, ``contested``, ``skipped``, ``makers`` and
    ``seconds`` by step.

    Raises :class:`InputError` (wrong Python, damaged wheel, lock and profile disagree), :class:`MissingError` (no
    network, an interpreter that cannot be copied), :class:`RefusedError` (no room).
    """
    source = interpreter.running()
    interpreter.check_source(source, profile.python)
    lock = profile_lock(profile, root)
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
    by = makers(python)
    parts = Parts(profile=profile, lock=lock, plan=plan, python=python, identity=content_key(inputs), makers=by)
    wanted = Wanted(inputs, by, plan, python.path / "prefix")

    def make(folder: Path) -> dict[str, Any]:
        for earlier in sources(store, KIND, wanted, progress=progress):
            check_room(plan, store, earlier)
            try:
                return build(parts, earlier, folder, progress)
            except Unusable as problem:
                progress.step(not_used(earlier.key, problem))
            for path in folder.iterdir():
                remove_tree(path)
        check_room(plan, store, None)
        return build(parts, None, folder, progress)

    return store.obtain(KIND, inputs, make)


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


def check_room(plan: install.Plan, store: Store, earlier: Source | None) -> None:
    """Refuse before anything is written when the disk cannot hold the environment (and uv's cache, if that is new).

    What is taken over from an ``earlier`` environment needs hardly any.
    """
    shared = 0
    if earlier is not None:
        shared = len(earlier.manifest) * PATH_BYTES
        plan = plan.part({dist.name for dist in plan.distributions()} - earlier.same)
    need = needed_bytes(plan) + shared
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "uv"
    if not cache.is_dir() and _same_disk(cache, store.root):
        need += int(plan.download_bytes * UNPACKED_RATIO)
    require_free(store.root, need, "the environment")


def needed_bytes(plan: install.Plan) -> int:
    """About how large the environment will be."""
    return int(sum(plan.sizes().values()) * UNPACKED_RATIO) + INTERPRETER_BYTES


def _same_disk(one: Path, other: Path) -> bool:
    def device(path: Path) -> int:
        return path.stat().st_dev if path.exists() else device(path.parent)

    return device(one) == device(other)


def copy_out(prefix: Path, target: Path, *, progress: Progress) -> None:
    """Copy a finished environment to the new folder ``target``, times and modes included; nothing half-made stays.

    Raises :class:`RefusedError` when ``target`` exists and is not an empty folder, or when the disk is too small.
    """
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise RefusedError(f"{target}: exists already", fix="name a new folder, or remove that one")
    size = sum(int(line.split("\t")[2]) for line in tree.manifest_lines(prefix))
    target = target.absolute()
    require_free(target.parent, size, "the copy of the environment")
    progress.step(f"copying {format_bytes(size)} to {target}")
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
