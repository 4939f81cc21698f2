"""What a build of this checkout uses of the store: for every profile, whatever the tier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orbit.core.records import content_key
from orbit.core.store import Store
from orbit.kernels.buildenv import KIND as BUILD_ENV
from orbit.kernels.buildenv import environment_inputs
from orbit.kernels.plan import KIND, make_plan
from orbit.kernels.prebuilt.disassembler import KIND as TOOL
from orbit.kernels.prebuilt.disassembler import disassembler_inputs
from orbit.kernels.prebuilt.listing import PACKAGE as DISASSEMBLER
from orbit.kernels.prebuilt.obtain import locked_wheel
from orbit.kernels.prebuilt.verify import KIND as VERIFIED
from orbit.kernels.prebuilt.verify import verified_inputs
from orbit.kernels.sources import Source
from orbit.kernels.sources.archives import archive_inputs, archive_kind
from orbit.kernels.sources.repositories import KIND as GIT
from orbit.kernels.sources.repositories import commit_inputs
from orbit.profile.lock import Lock
from orbit.profile.model import Profile, load_profile, profile_names
from orbit.profile.place import profile_lock


def needed_entries(root: Path, store: Store) -> frozenset[tuple[str, str]]:
    """(kind, key) of every entry that some profile's kernels are, are made of, or are made in."""
    profiles = [load_profile(name) for name in profile_names()]
    return frozenset(pair for each in profiles for pair in _of(each, profile_lock(each, root), root, store))


def _of(profile: Profile, lock: Lock, root: Path, store: Store) -> Iterator[tuple[str, str]]:
    plan = make_plan(profile, root, store, tier="all")
    for item in plan.items:
        yield KIND, content_key(item.inputs)
        yield BUILD_ENV, content_key(environment_inputs(item.recipe.group, lock))
        yield from _source(item.source)
    for check in plan.checks:
        yield VERIFIED, content_key(verified_inputs(check.recipe, profile, lock))
        yield BUILD_ENV, content_key(environment_inputs(check.recipe.group, lock))
        yield from _source(check.source)
        for dist in check.recipe.beside:
            yield from _source(locked_wheel(dist, lock))
        if check.recipe.mode == "jit":
            yield TOOL, content_key(disassembler_inputs(lock))
            yield from _source(locked_wheel(DISASSEMBLER, lock))


def _source(source: Source) -> Iterator[tuple[str, str]]:
    if source.kind in ("sdist", "wheel"):
        yield archive_kind(source), content_key(archive_inputs(source))
    for pin in source.pins:
        yield GIT, content_key(commit_inputs(pin))
