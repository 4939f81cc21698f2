"""What a recipe must say to make sense: checked when it is read, each error naming file, key and fix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.errors import InputError

if TYPE_CHECKING:
    from orbit.kernels.recipe import Recipe

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
    if not recipe.artifacts or recipe.memory_gib <= 0 or recipe.core_hours <= 0 or recipe.device_units < 0:
        yield (
            "artifacts, memory_gib, core_hours and device_units must say something",
            "name the files the wheel must hold and positive estimates",
        )
    if recipe.config_settings and recipe.backend != "pyproject":
        yield "config_settings without backend = 'pyproject'", "setup.py reads variables: use [env]"
    yield from _patches(path, recipe)
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


def _git(recipe: Recipe) -> Iterator[tuple[str, str]]:
    source = recipe.source
    if source.kind != "git":
        if source.url or source.commit or source.tree or source.subdirectory or source.submodules:
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
    for sub in source.submodules:
        if sub.path.startswith("/") or ".." in sub.path.split("/"):
            yield f"submodule path {sub.path!r} leaves the source", "use a folder inside the source"
