"""Verify what is not compiled here: a published wheel of the lock, or a package that compiles at run time.

The answer is a build manifest like that of a wheel built here, with what it was held against. It is remembered in the
store under everything it depends on, so nothing is read twice. A wheel that cannot be had ends the command; nothing is
ever compiled in its place.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from orbit.audit.known.policy import load_policy
from orbit.core.console import Progress
from orbit.core.files import remove_tree, sha256_file, tree_hash
from orbit.core.findings import Finding
from orbit.core.paths import PACKAGE, data_file
from orbit.core.records import Record, dump_json, load_json
from orbit.core.store import Store
from orbit.errors import CheckFailed
from orbit.kernels.buildenv import build_environment, closure_hash
from orbit.kernels.manifest import BuildManifest
from orbit.kernels.prebuilt.disassembler import locked_disassembler
from orbit.kernels.prebuilt.listing import PACKAGE as DISASSEMBLER
from orbit.kernels.prebuilt.obtain import locked_wheel, obtain_wheel
from orbit.kernels.recipe import Recipe
from orbit.kernels.sources import Source
from orbit.kernels.toolchain import host_toolchain
from orbit.profile.lock import Lock
from orbit.profile.model import Profile

FORMAT = 1
KIND = "verified"
MANIFEST = "manifest.json"
CODE = ("audit", "kernels/prebuilt", "kernels/capabilities.py", "kernels/manifest.py", "kernels/wheels/tags.py")
"""Parts of Orbit's own code on which the answer depends."""
DATA = (("kernels", "expectations"), ("kernels", "capabilities.toml"), ("env", "activation.toml"))


class VerifiedWheel(Record, frozen=True, kw_only=True):
    """One wheel that was verified; the fields of a built one."""

    recipe: str
    dist: str
    version: str
    path: str
    """Absolute path in the store."""
    sha256: str
    manifest: BuildManifest
    reused: bool
    """True when the answer was in the store and nothing was read."""
    seconds: float
    """How long verifying took when it was really done."""


def ensure_verified(
    recipe: Recipe,
    profile: Profile,
    lock: Lock,
    store: Store,
    progress: Progress,
    *,
    environment: Callable[[], Path] | None = None,
    today: dt.date | None = None,
) -> VerifiedWheel:
    """The verified wheel of a recipe with mode ``prebuilt`` or ``jit``; nothing is done when the answer is known.

    ``environment`` gives the prefix of the build environment (default: the recipe's group, installed into the store
    when something has to be read). Raises :class:`MissingError` when the wheel cannot be had, :class:`CheckFailed` when
    it is not what the lock says or fails a rule.
    """
    source = locked_wheel(recipe.dist, lock)
    path = obtain_wheel(source, store, progress)

    def work(folder: Path) -> dict[str, Any]:
        from orbit.kernels.prebuilt.check import JitTools, verify_wheel  # noqa: PLC0415 - a third of a second, rarely used

        prefix = environment() if environment else build_environment(recipe.group, lock, store, progress).path / "env"
        others = tuple(obtain_wheel(locked_wheel(dist, lock), store, progress) for dist in recipe.beside)
        scratch = store.scratch(f"verify-{recipe.name}")
        try:
            jit = JitTools(locked_disassembler(lock, store, progress), scratch) if recipe.mode == "jit" else None
            manifest, findings = verify_wheel(
                recipe, path, profile, lock, environment=prefix, others=others, jit=jit, progress=progress, today=today
            )
        finally:
            remove_tree(scratch)
        _refuse(recipe, source.version, findings)
        dump_json(folder / MANIFEST, manifest)
        return {"wheel": source.sha256}

    entry = store.obtain(KIND, _inputs(recipe, source, profile, lock, today), work)
    return VerifiedWheel(
        recipe=recipe.name,
        dist=recipe.dist,
        version=source.version,
        path=str(path),
        sha256=source.sha256,
        manifest=load_json(entry.path / MANIFEST, BuildManifest),
        reused=entry.reused,
        seconds=entry.record.seconds,
    )


def _refuse(recipe: Recipe, version: str, findings: tuple[Finding, ...]) -> None:
    """Raise :class:`CheckFailed` when there are findings."""
    if findings:
        lines = [f"{recipe.name} {version}: the published wheel is not what this profile needs"]
        for found in findings:
            shown = ", ".join(f"{key}: {value}" for key, value in found.evidence.items() if value)
            lines.append(f"  {found.rule} {found.subject}: {found.message}" + (f" ({shown})" if shown else ""))
        raise CheckFailed("\n".join(lines), fix=findings[0].fix)


def known_manifest(recipe: Recipe, profile: Profile, lock: Lock, store: Store) -> BuildManifest | None:
    """What was proved of the recipe's wheel, when the store has the answer; fetches and reads nothing."""
    entry = store.find(KIND, verified_inputs(recipe, profile, lock))
    return load_json(entry.path / MANIFEST, BuildManifest) if entry else None


def verified_inputs(recipe: Recipe, profile: Profile, lock: Lock, today: dt.date | None = None) -> dict[str, Any]:
    """The key of the answer in the store."""
    return _inputs(recipe, locked_wheel(recipe.dist, lock), profile, lock, today)


def _inputs(recipe: Recipe, source: Source, profile: Profile, lock: Lock, today: dt.date | None) -> dict[str, Any]:
    """Everything the answer depends on. Estimates of the recipe do not enter; a waiver that ran out does."""
    today = today or dt.datetime.now(dt.UTC).date()
    waivers = load_policy(profile, today=today).expectations.waivers
    inputs: dict[str, Any] = {
        "format": FORMAT,
        "code": code_hash(),
        "wheel": source.sha256,
        "file": source.file,
        "recipe": msgspec.structs.replace(recipe, memory_gib=1.0, core_hours=1.0, tier="core"),
        "profile": profile,
        "data": [tree_hash(path) if path.is_dir() else sha256_file(path) for path in (data_file(*d) for d in DATA)],
        "expired": [f"{waiver.rule} {waiver.subject}" for waiver in waivers if waiver.expires < today],
        "closure": closure_hash(lock, recipe.group),
        "beside": [locked_wheel(dist, lock).sha256 for dist in recipe.beside],
    }
    if recipe.mode == "jit":
        probes = data_file("kernels", "probes", recipe.name)
        inputs |= {
            "disassembler": locked_wheel(DISASSEMBLER, lock).sha256,
            "host": host_toolchain(),
            "probes": tree_hash(probes) if probes.is_dir() else "",
        }
    return inputs


@functools.cache
def code_hash() -> str:
    """sha256 over the parts of Orbit's code that judge."""
    state = hashlib.sha256()
    for name in CODE:
        path = PACKAGE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            state.update(f"{file.relative_to(PACKAGE)} {sha256_file(file)}\n".encode())
    return state.hexdigest()
