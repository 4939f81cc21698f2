"""The plan: which recipes are built for a profile, from which sources, and whether the result is in the store."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from orbit.core.files import sha256_file
from orbit.core.findings import Skipped
from orbit.core.proc import run
from orbit.core.records import Record, content_key, load_json
from orbit.core.store import Store
from orbit.core.tools import find
from orbit.errors import InputError
from orbit.kernels import shim
from orbit.kernels.buildenv import closure_hash
from orbit.kernels.jobs.machine import memory_available_gib
from orbit.kernels.manifest import BuildManifest
from orbit.kernels.recipe import Recipe, gencode_pairs, load_recipe, render_env
from orbit.kernels.sources import Source, resolve_source
from orbit.profile.lock import Lock, read_lock
from orbit.profile.model import Profile

FORMAT = 1
"""Bumped when what a build leaves in the store changes shape."""
TIERS = ("core", "all")
KIND = "wheel"
MANIFEST = "manifest.json"


class Item(Record, frozen=True, kw_only=True):
    """One recipe of the plan."""

    recipe: Recipe
    source: Source
    pairs: tuple[tuple[str, str], ...]
    """(virtual, real) architectures, in the profile's order."""
    inputs: dict[str, Any]
    """Everything the result depends on: the key of the wheel in the store."""
    jobs: int
    """Compile jobs at once; each compiles all architectures of its unit at the same time."""
    cached: str
    """Folder of the finished wheel in the store; empty when it must be built."""


class Plan(Record, frozen=True, kw_only=True):
    """What ``build_kernels`` will do."""

    profile: str
    items: tuple[Item, ...]
    skipped: tuple[Skipped, ...]


def make_plan(profile: Profile, root: Path, store: Store, *, tier: str, jobs: int | None = None) -> Plan:
    """Resolve every recipe of the profile's tier. Reads the lock and the store, builds and fetches nothing.

    Raises :class:`InputError` for an unknown tier or bad data, :class:`MissingError` without a C++ compiler.
    """
    if tier not in TIERS:
        raise InputError(f"no tier named {tier!r}", fix=f"use one of {', '.join(TIERS)}")
    lock = read_lock(root / "uv.lock")
    names = (*profile.kernels.core, *(profile.kernels.extended if tier == "all" else ()))
    recipes = [load_recipe(name) for name in names]
    base = {"format": FORMAT, "shim": shim_hash(), "python": sys.version.split()[0]}
    if recipes:
        base["host_compiler"] = host_compiler()
    items = []
    pairs = gencode_pairs(profile)
    for recipe in recipes:
        source = resolve_source(recipe, lock, root)
        inputs = {**base, **_inputs(recipe, source, profile, lock)}
        found = store.find(KIND, inputs)
        items.append(
            Item(
                recipe=recipe,
                source=source,
                pairs=pairs,
                inputs=inputs,
                jobs=jobs or parallel_jobs(recipe.memory_gib * len(pairs), os.cpu_count() or 1, memory_available_gib()),
                cached=str(found.path) if found else "",
            )
        )
    return Plan(
        profile=profile.name,
        items=tuple(items),
        skipped=tuple(_skip(load_recipe(name)) for name in profile.kernels.extended if name not in names),
    )


def _inputs(recipe: Recipe, source: Source, profile: Profile, lock: Lock) -> dict[str, Any]:
    """What the wheel depends on besides the tools. Estimates (memory, hours, tier) do not enter."""
    return {
        "recipe": recipe.name,
        "dist": recipe.dist,
        "source": source.identity,
        "version": source.version,
        "pairs": gencode_pairs(profile),
        "group": recipe.group,
        "closure": closure_hash(lock, recipe.group),
        "include": recipe.include,
        "env": render_env(recipe, profile.target_archs()),
        "artifacts": recipe.artifacts,
        "device_units": recipe.device_units,
        "shared_object": recipe.shared_object,
    }


def built_manifests(
    profile: Profile, root: Path, store: Store, *, tier: str
) -> tuple[tuple[BuildManifest, ...], tuple[str, ...]]:
    """The manifests of the profile's finished wheels, and the names of recipes whose wheel is not in the store."""
    plan = make_plan(profile, root, store, tier=tier)
    found = tuple(load_json(Path(item.cached) / MANIFEST, BuildManifest) for item in plan.items if item.cached)
    return found, tuple(item.recipe.name for item in plan.items if not item.cached)


def _skip(recipe: Recipe) -> Skipped:
    return Skipped(
        what=recipe.dist,
        reason=f"tier {recipe.tier}: about {recipe.core_hours:g} core-hours; build it with --kernels all",
        estimate=f"{recipe.core_hours:g} core-hours",
    )


def parallel_jobs(memory_gib: float, cores: int, available_gib: float) -> int:
    """How many compile jobs of ``memory_gib`` fit: never more than cores, never less than one."""
    return max(1, min(cores, int(available_gib / memory_gib)))


def host_compiler() -> str:
    """Version of the C++ compiler that compiles the host side, e.g. ``g++ 12.2.0``."""
    compiler = find("g++")
    shown = run([compiler, "-dumpfullversion"], doing="ask the C++ compiler for its version")
    return f"g++ {shown.stdout.decode().strip()}"


def shim_hash() -> str:
    """Hash of the compiler shim as it is installed into builds: names and contents of its modules."""
    folder = Path(shim.__file__).parent
    return content_key([(path.name, sha256_file(path)) for path in sorted(folder.glob("*.py"))])
