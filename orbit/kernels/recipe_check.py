"""What a recipe must say to make sense: checked when it is read, each error naming file, key and fix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.errors import InputError
from orbit.kernels.capabilities import loads

if TYPE_CHECKING:
    from orbit.kernels.recipe import Probe, Recipe, RecipeSource

GROUPS = ("cuda", "torch-build")
"""Dependency groups of pyproject.toml that can be a build environment."""
COMMIT = re.compile(r"[0-9a-f]{40}")
URL = re.compile(r"https://[^\s@]+")
MODES = {"source": ("sdist", "git", "local"), "prebuilt": ("wheel",), "jit": ("wheel",)}
"""Kinds of source that fit a mode."""


def check_recipe(path: Path, recipe: Recipe) -> None:
    """Raise :class:`InputError` for the first thing in the recipe that contradicts itself."""
    for message, fix in _problems(path, recipe):
        raise InputError(f"{path}: {message}", fix=fix)


def _problems(path: Path, recipe: Recipe) -> Iterator[tuple[str, str]]:
    if recipe.group not in GROUPS:
        yield f"group = {recipe.group!r}", f"use one of {', '.join(GROUPS)}"
    kind = recipe.source.kind
    if kind not in MODES[recipe.mode]:
        yield (
            f"mode = {recipe.mode!r} does not fit source.kind = {kind!r}",
            f"mode {recipe.mode} takes {' or '.join(MODES[recipe.mode])}",
        )
    local = recipe.shared_object is not None and bool(recipe.source.folder) and bool(recipe.source.version)
    if (kind == "local") != local:
        yield (
            f"source.kind = {kind!r} does not fit the rest",
            "a local source needs source.folder, source.version and [shared_object]; others have none (git a version)",
        )
    yield from _git(recipe)
    estimates = min(recipe.memory_gib, recipe.core_hours)
    if not recipe.artifacts or estimates <= 0 or min(recipe.device_units, recipe.linked_units) < 0:
        yield (
            "artifacts, memory_gib, core_hours, device_units and linked_units must say something",
            "name the files the wheel must hold and positive estimates",
        )
    if recipe.config_settings and recipe.backend != "pyproject":
        yield "config_settings without backend = 'pyproject'", "setup.py reads variables: use [env]"
    yield from _patches(path, recipe)
    yield from _requires(recipe)
    yield from _verified(path, recipe)
    for feature in recipe.features:
        if not (feature.symbols or feature.units or feature.forbidden_defines):
            yield f"features: {feature.name!r} asserts nothing", "give symbols, units or forbidden_defines"


def _patches(path: Path, recipe: Recipe) -> Iterator[tuple[str, str]]:
    folder = path.parent.parent / "patches" / recipe.name
    for patch in recipe.patches:
        if "/" in patch.file or not (folder / patch.file).is_file():
            yield f"patches: no file {patch.file!r}", f"put it into kernels/patches/{recipe.name}"
        if not patch.reason.strip():
            yield f"patches: {patch.file} has no reason", "say why upstream's source cannot be taken as it is"


def _requires(recipe: Recipe) -> Iterator[tuple[str, str]]:
    if recipe.requires and recipe.mode != "source":
        yield f"mode = {recipe.mode!r} with requires", "nothing is built that needs it"
    for need in recipe.requires:
        if not {"", ".", ".."}.isdisjoint(need.file.split("/")):
            yield f"requires: {need.file!r} leaves its place", "use a path inside the place, spelt plainly"
        if not need.reason.strip() or not need.fix.strip():
            yield f"requires: {need.file} without reason or fix", "say what needs it and how to get it"


def _verified(path: Path, recipe: Recipe) -> Iterator[tuple[str, str]]:
    """What belongs to recipes that are verified instead of compiled, and what does not."""
    if recipe.mode != "source" and (recipe.patches or recipe.env or recipe.include or recipe.features):
        yield f"mode = {recipe.mode!r} with patches, env, include or features", "nothing is built that uses them"
    if recipe.mode == "source" and recipe.beside:
        yield "beside in a recipe that is compiled", "it is for wheels that are verified"
    if (recipe.mode == "jit") != (recipe.jit is not None) or (recipe.mode == "jit") != bool(recipe.probes):
        yield "mode, [jit] and [[probes]] do not fit", "only mode = 'jit' has a table [jit], and probes"
    if recipe.jit is not None:
        blanks = sum(text.count("{}") for text in recipe.jit.flags)
        if blanks != len(recipe.jit.values):
            yield f"jit: {len(recipe.jit.values)} values for {blanks} blanks in flags", "give one value for each {}"
        if not recipe.jit.include or not recipe.jit.cache_key:
            yield "jit: include and cache_key must say something", "name the header folders and the texts of the key"
    for probe in recipe.probes:
        yield from _probe(path.parent.parent / "probes" / recipe.name, probe)


def _probe(folder: Path, probe: Probe) -> Iterator[tuple[str, str]]:
    where = f"probes: {probe.name!r}"
    if bool(probe.source) == bool(probe.kernel) or (probe.source and probe.arguments):
        yield f"{where} needs a kernel with arguments, or a source", "give one of them"
    if probe.source and ("/" in probe.source or not (folder / probe.source).is_file()):
        yield f"{where}: no file {probe.source!r}", f"put it into kernels/probes/{folder.name}"
    if not probe.expect:
        yield f"{where} expects no instruction", "name what makes this device's code its own, e.g. HGMMA"
    if not loads(probe.arch, probe.capability):
        yield f"{where}: code for {probe.arch} does not run on {probe.capability}", "correct arch or capability"


def _git(recipe: Recipe) -> Iterator[tuple[str, str]]:
    source = recipe.source
    if source.kind != "git":
        submodules = source.submodules or source.unused_submodules
        if source.url or source.commit or source.tree or source.subdirectory or submodules:
            yield f"source.kind = {source.kind!r} with url, commit, tree or submodules", "these belong to kind = 'git'"
        return
    if not source.version:
        yield "source.version is missing", "say the version that the wheel built from this commit has"
    pins = [("source", source.url, source.commit, source.tree)]
    pins += [(f"submodule {sub.path}", sub.url, sub.commit, sub.tree) for sub in source.submodules]
    for where, url, commit, tree in pins:
        if not URL.fullmatch(url):
            yield f"{where}: url = {url!r}", "use an https:// address without user name or password"
        for key, value in (("commit", commit), ("tree", tree)):
            if not COMMIT.fullmatch(value):
                yield f"{where}: {key} = {value!r}", "40 lower-case hex digits; branches and tags move"
    yield from _folders(source)


def _folders(source: RecipeSource) -> Iterator[tuple[str, str]]:
    named = [("submodule path", path) for path in (*(sub.path for sub in source.submodules), *source.unused_submodules)]
    for what, path in [*named, ("subdirectory", source.subdirectory or "here")]:
        if not {"", ".", ".."}.isdisjoint(path.split("/")):
            yield f"{what} {path!r} leaves the source", "use a folder inside the source, spelt plainly"
    paths = [path for _, path in named]
    if len(set(paths)) < len(paths):
        yield f"submodules name one folder twice: {', '.join(sorted(paths))}", "pin it or say it is unused, once"
