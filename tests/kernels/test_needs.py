"""orbit.kernels.needs: everything a build of this checkout uses is named, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.paths import checkout_root
from orbit.core.records import content_key
from orbit.core.store import Store
from orbit.kernels import plan as plans
from orbit.kernels.buildenv import environment_inputs
from orbit.kernels.gc import ENTRY_KINDS
from orbit.kernels.needs import needed_entries
from orbit.kernels.plan import make_plan
from orbit.kernels.prebuilt.disassembler import KIND, disassembler_inputs
from orbit.kernels.prebuilt.listing import PACKAGE
from orbit.kernels.prebuilt.obtain import locked_wheel
from orbit.kernels.sources.archives import archive_inputs
from orbit.profile.lock import read_lock
from orbit.profile.model import load_profile


def test_what_verifying_takes_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "host_toolchain", lambda: "g++ 12.2.0")
    root = checkout_root()
    lock = read_lock(root / "uv.lock")
    needed = needed_entries(root, Store(tmp_path))
    checks = make_plan(load_profile("cu130"), root, Store(tmp_path), tier="all").checks
    jit = [check for check in checks if check.recipe.mode == "jit"]
    assert jit
    for dist in (PACKAGE, *(dist for check in jit for dist in check.recipe.beside)):
        assert ("locked-wheel", content_key(archive_inputs(locked_wheel(dist, lock)))) in needed
    assert (KIND, content_key(disassembler_inputs(lock))) in needed


def test_wheels_their_sources_and_what_they_are_built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "host_toolchain", lambda: "g++ 12.2.0")
    root, store = checkout_root(), Store(tmp_path)
    needed = needed_entries(root, store)
    plan = make_plan(load_profile("cu130"), root, store, tier="all")
    assert {("wheel", content_key(item.inputs)) for item in plan.items} <= needed
    lock = read_lock(root / "uv.lock")
    assert ("build-env", content_key(environment_inputs("torch-build", lock))) in needed
    kinds = {kind for kind, _ in needed}
    assert {"wheel", "build-env", "sdist"} <= kinds <= set(ENTRY_KINDS)
    monkeypatch.setattr(plans, "host_toolchain", lambda: "g++ 14.1.0")
    other = needed_entries(root, store)
    assert {pair for pair in other if pair[0] == "wheel"}.isdisjoint(needed)
    assert {pair for pair in other if pair[0] == "sdist"} <= needed
