"""The plan: which recipes are built or verified for a profile, from which sources, and what is in the store already."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from orbit.core.files import sha256_file, tree_hash
from orbit.core.findings import Skipped
from orbit.core.records import Record, content_key, load_json
from orbit.core.store import Store
from orbit.errors import InputError
from orbit.kernels import shim
from orbit.kernels.buildenv import closure_hash
from orbit.kernels.host_toolkit import require_toolkit, wants_toolkit, without_toolkit
from orbit.kernels.manifest import BuildManifest
from orbit.kernels.prebuilt.verify import known_manifest
from orbit.kernels.recipe import Recipe, gencode_pairs, load_recipe, render_env
from orbit.kernels.requires import system_headers
from orbit.kernels.sources import Source, resolve_source
from orbit.kernels.toolchain import host_toolchain, python_build
from orbit.profile.lock import Lock
from orbit.profile.model import Profile
from orbit.profile.place import profile_lock

FORMAT = 2
"""Bumped when what a build leaves in the store changes shape."""
COMPILING = ("shim", "fronts.py", "workspace.py", "backend.py")
"""Modules of this room that decide what a compiler is told."""
FINISHING = ("finish.py", "wheels/archive.py", "wheels/contents.py", "wheels/run_paths.py", "wheels/tags.py")
"""Modules that decide what a finished wheel holds besides. A change of these compiles nothing again."""
TIERS = ("core", "all")
KIND = "wheel"
MANIFEST = "manifest.json"


class Item(Record, frozen=True, kw_only=True):
    """One recipe that is compiled."""

    recipe: Recipe
    source: Source
    pairs: tuple[tuple[str, str], ...]
    """(virtual, real) architectures, in the profile's order."""
    inputs: dict[str, Any]
    """Everything the wheel depends on: its key in the store."""
    compile_key: str
    """Everything the compiled objects depend on: a part of ``inputs``, and the key of unfinished builds' objects."""
    cached: str
    """Folder of the finished wheel in the store; empty when it must be built."""


class Check(Record, frozen=True, kw_only=True):
    """One recipe whose published wheel is verified."""

    recipe: Recipe
    source: Source
    cached: bool
    """Whether the answer is in the store."""


class Plan(Record, frozen=True, kw_only=True):
    """What ``build_kernels`` will do."""

    profile: str
    items: tuple[Item, ...]
    checks: tuple[Check, ...]
    skipped: tuple[Skipped, ...]

    def todo(self) -> tuple[str, ...]:
        """Names of the recipes for which something has to be done."""
        items: tuple[Item | Check, ...] = (*self.items, *self.checks)
        return tuple(each.recipe.name for each in items if not each.cached)


def make_plan(profile: Profile, root: Path, store: Store, *, tier: str, names: tuple[str, ...] = ()) -> Plan:
    """Resolve every recipe of the profile's tier, or only those in ``names``, whether the profile has them or not.

    Reads the lock and the store, builds and fetches nothing. What cannot be compiled for want of a toolkit of the host
    is skipped, or an error when it is one of ``names``. Raises :class:`InputError` for an unknown tier, an unknown
    recipe or bad data, :class:`MissingError` without a C++ compiler.
    """
    if tier not in TIERS:
        raise InputError(f"no tier named {tier!r}", fix=f"use one of {', '.join(TIERS)}")
    lock = profile_lock(profile, root)
    known = (*profile.kernels.core, *profile.kernels.extended)
    wanted = names or (known if tier == "all" else profile.kernels.core)
    recipes = [load_recipe(name) for name in dict.fromkeys(wanted)]
    lacking = {} if names else {each.name: why for each in recipes if (why := without_toolkit(each, profile))}
    recipes = [each for each in recipes if each.name not in lacking]
    late = () if names else tuple(_skip(load_recipe(name)) for name in known if name not in wanted)
    return Plan(
        profile=profile.name,
        items=tuple(_item(each, profile, lock, root, store) for each in recipes if each.mode == "source"),
        checks=tuple(_check(each, profile, lock, root, store) for each in recipes if each.mode != "source"),
        skipped=(*lacking.values(), *late),
    )


def _item(recipe: Recipe, profile: Profile, lock: Lock, root: Path, store: Store) -> Item:
    source = resolve_source(recipe, lock, root)
    compiled = {
        "shim": shim_hash(),
        "code": code_hash(COMPILING),
        "python": sys.version.split()[0],
        "python_build": python_build(),
        "host_compiler": host_toolchain(),
        "recipe": recipe.name,
        "source": source.identity,
        "version": source.version,
        "pairs": gencode_pairs(profile),
        "group": recipe.group,
        "closure": closure_hash(lock, recipe.group),
        "include": recipe.include,
        "env": render_env(recipe, profile.target_archs()),
        "backend": recipe.backend,
        "config_settings": recipe.config_settings,
        "shared_object": recipe.shared_object,
    }
    if wants_toolkit(recipe, profile):
        compiled["toolkit"] = require_toolkit(recipe, profile).identity
    if recipe.requires:
        compiled["headers"] = system_headers(recipe)
    # estimates (memory, hours, tier) change no wheel and are not here
    inputs = {
        **compiled,
        "format": FORMAT,
        "finish": code_hash(FINISHING),
        "dist": recipe.dist,
        "artifacts": recipe.artifacts,
        "device_units": recipe.device_units,
        "features": recipe.features,
    }
    if recipe.linked_units:
        inputs["linked_units"] = recipe.linked_units
    found = store.find(KIND, inputs)
    return Item(
        recipe=recipe,
        source=source,
        pairs=gencode_pairs(profile),
        inputs=inputs,
        compile_key=content_key(compiled),
        cached=str(found.path) if found else "",
    )


def _check(recipe: Recipe, profile: Profile, lock: Lock, root: Path, store: Store) -> Check:
    return Check(
        recipe=recipe,
        source=resolve_source(recipe, lock, root),
        cached=known_manifest(recipe, profile, lock, store) is not None,
    )


def built_manifests(
    profile: Profile, root: Path, store: Store, *, tier: str
) -> tuple[tuple[BuildManifest, ...], tuple[str, ...]]:
    """The manifests of the profile's wheels, and the names of recipes that were not built or verified yet."""
    plan = make_plan(profile, root, store, tier=tier)
    lock = profile_lock(profile, root)
    built = [load_json(Path(item.cached) / MANIFEST, BuildManifest) for item in plan.items if item.cached]
    verified = [known_manifest(check.recipe, profile, lock, store) for check in plan.checks]
    return (*built, *(manifest for manifest in verified if manifest)), plan.todo()


def _skip(recipe: Recipe) -> Skipped:
    return Skipped(
        what=recipe.dist,
        reason=f"tier {recipe.tier}: about {recipe.core_hours:g} core-hours; build it with --kernels all",
        estimate=f"{recipe.core_hours:g} core-hours",
    )


def shim_hash() -> str:
    """Hash of the compiler fronts as they are installed into builds."""
    return tree_hash(Path(shim.__file__).parent)


@functools.cache
def code_hash(modules: tuple[str, ...]) -> str:
    """Hash of modules and folders of this room."""
    places = [Path(__file__).parent / name for name in modules]
    return content_key([tree_hash(place) if place.is_dir() else sha256_file(place) for place in places])
