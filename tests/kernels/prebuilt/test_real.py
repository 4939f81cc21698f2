"""The wheels of the cu130 lock, verified for real: fetched, judged by that profile, DeepGEMM's kernels compiled."""

from __future__ import annotations

import pytest

from orbit.core.console import Silent
from orbit.core.paths import checkout_root
from orbit.core.store import Store
from orbit.kernels.prebuilt.verify import VerifiedWheel, ensure_verified
from orbit.kernels.recipe import load_recipe
from orbit.profile.lock import read_lock
from orbit.profile.model import load_profile
from tests.audit.real import environment

pytestmark = [pytest.mark.integration, pytest.mark.network]

NAMES = [name for name in load_profile("cu130").kernels.core if load_recipe(name).mode != "source"]


def verified(name: str, store: Store) -> VerifiedWheel:
    lock = read_lock(checkout_root() / "uv.lock")
    return ensure_verified(load_recipe(name), load_profile("cu130"), lock, store, Silent(), environment=environment)


@pytest.mark.parametrize("name", NAMES)
def test_the_locked_wheel_is_what_the_profile_needs(name: str, store: Store) -> None:
    found = verified(name, store)
    manifest = found.manifest
    assert not found.reused
    assert verified(name, store).manifest == manifest
    assert manifest.verified is not None
    assert "undefined-symbol" in manifest.verified.rules
    assert sum(sum(binary.coverage.values()) for binary in manifest.found) == load_recipe(name).device_units
    loaded = manifest.verified.loaded
    assert all(row.kernels == 0 or row.kernels > row.stubs for row in loaded)
    if load_recipe(name).device_units:
        assert {row.target for row in loaded if row.kernels} == {"h100", "b200"}
    if manifest.jit is not None:
        assert {probe.target for probe in manifest.jit.probes} == {"h100", "b200"}
        assert all(number for probe in manifest.jit.probes for number in probe.instructions.values())


def test_there_are_recipes_to_verify() -> None:
    assert {"sgl-deep-gemm", "sglang-kernel", "torch-memory-saver", "transformer-engine-cu13"} <= set(NAMES)
