"""Patches that recipes carry: each is understood, named by its recipe, and fits the source that the lock pins."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orbit.core.console import Silent
from orbit.core.paths import checkout_root
from orbit.core.store import Store
from orbit.errors import CheckFailed
from orbit.kernels.recipe import Recipe, load_recipe, recipe_names
from orbit.kernels.sources import obtain, resolve_source, unpack
from orbit.kernels.sources.patches import apply_patch, parse_patch
from orbit.profile.lock import read_lock

ROOT = checkout_root()
PATCHED = [name for name in recipe_names() if load_recipe(name).patches]
GUARD = b"if (chunk * kChunkSize + i < params.seqlen) { x_vals_load[i] = x[-kNElts + i]; }"


def test_every_patch_is_named_by_a_recipe() -> None:
    named = {f"{name}/{patch.file}" for name in PATCHED for patch in load_recipe(name).patches}
    lying = {path.relative_to(ROOT / "kernels" / "patches").as_posix() for path in ROOT.glob("kernels/patches/*/*")}
    assert named == lying
    assert "causal-conv1d/short-last-chunk.patch" in named


def test_the_patch_of_causal_conv1d_takes_one_guard_away() -> None:
    path = ROOT / "kernels" / "patches" / "causal-conv1d" / "short-last-chunk.patch"
    (change,) = parse_patch(path.read_bytes(), path.name)
    (hunk,) = change.hunks
    assert change.path == "csrc/causal_conv1d_bwd.cu"
    assert [line.strip() for line in hunk.old] == [GUARD]
    assert [line.strip() for line in hunk.new] == [b"x_vals_load[i] = x[-kNElts + i];"]


def test_a_patch_is_part_of_the_source_s_identity() -> None:
    recipe, lock = load_recipe("causal-conv1d"), read_lock(ROOT / "uv.lock")
    patched = resolve_source(recipe, lock, ROOT)
    released = resolve_source(msgspec.structs.replace(recipe, patches=()), lock, ROOT)
    assert patched.sha256 == released.sha256
    assert patched.identity != released.identity


@pytest.mark.integration
@pytest.mark.network
@pytest.mark.parametrize("name", PATCHED)
def test_patches_fit_the_source_of_the_lock(name: str, tmp_path: Path) -> None:
    recipe, lock, store = load_recipe(name), read_lock(ROOT / "uv.lock"), Store(tmp_path / "store")

    def laid_out(recipe: Recipe, folder: str) -> dict[str, bytes]:
        got = obtain(recipe, resolve_source(recipe, lock, ROOT), store, ROOT, Silent())
        top = unpack(got, tmp_path / folder)
        return {path.relative_to(top).as_posix(): path.read_bytes() for path in top.rglob("*") if path.is_file()}

    patched, plain = laid_out(recipe, "patched"), laid_out(msgspec.structs.replace(recipe, patches=()), "plain")
    changed = {path for path in {*patched, *plain} if patched.get(path) != plain.get(path)}
    patches = [ROOT / "kernels" / "patches" / name / patch.file for patch in recipe.patches]
    assert changed == {change.path for path in patches for change in parse_patch(path.read_bytes(), path.name)}
    with pytest.raises(CheckFailed, match="does not fit"):
        apply_patch(patches[0].read_bytes(), patches[0].name, tmp_path / "patched")
