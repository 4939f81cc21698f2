"""Recipes whose index namesake is hollow or a stranger, and what mamba-ssm asserts against what can go wrong."""

from __future__ import annotations

import msgspec
import pytest

from orbit.core.paths import checkout_root
from orbit.kernels.features import check_features
from orbit.kernels.manifest import Unit
from orbit.kernels.recipe import Recipe, RecipeSource, load_recipe, recipe_names
from orbit.profile.lock import read_lock
from orbit.profile.policy import load_policy

RULES = {rule.name: rule for rule in load_policy(checkout_root()).sources if rule.source in {"git", "forbidden"}}
"""Distributions that must not be taken from an index."""
ARCHS = ("sm_90a", "sm_100a")
MAMBA = load_recipe("mamba-ssm")
KERNELS = {f"_Z25selective_scan_{way}_kernelI{dtype}E" for way in ("fwd", "bwd") for dtype in ("f", "N3c104HalfE")}


def wrong_source(recipe: Recipe) -> str:
    """What of the recipe's source contradicts the lock policy; empty when nothing does."""
    rule = RULES.get(recipe.dist)
    if rule is None:
        return ""
    if recipe.source.kind in {"sdist", "wheel"}:
        return f"{recipe.name}: {recipe.dist} of the index, but {rule.reason}"
    if rule.source == "git" and (recipe.source.url, recipe.source.commit) != (rule.url, rule.commit):
        return f"{recipe.name}: {recipe.source.url} at {recipe.source.commit}, the policy says {rule.commit}"
    return ""


def test_no_recipe_builds_what_the_policy_does_not_take_from_an_index() -> None:
    assert [wrong for name in recipe_names() if (wrong := wrong_source(load_recipe(name)))] == []


@pytest.mark.parametrize("dist", ["deep-ep", "deep-gemm", "fast-hadamard-transform"])
def test_a_recipe_of_a_namesake_would_be_seen(dist: str) -> None:
    recipe = msgspec.structs.replace(MAMBA, dist=dist)
    for kind in ("sdist", "wheel"):
        assert "of the index" in wrong_source(msgspec.structs.replace(recipe, source=RecipeSource(kind=kind)))
    rule = RULES[dist]
    if rule.source == "git":
        source = RecipeSource(kind="git", url=rule.url, commit=rule.commit)
        assert wrong_source(msgspec.structs.replace(recipe, source=source)) == ""
        moved = msgspec.structs.replace(source, commit="0" * 40)
        assert "the policy says" in wrong_source(msgspec.structs.replace(recipe, source=moved))


def test_the_lock_holds_no_namesake() -> None:
    names = {package.name: package for package in read_lock(checkout_root() / "uv.lock").packages}
    assert "mamba-ssm" in names
    for name, rule in RULES.items():
        if name in names:
            assert rule.source == "git", name
            assert names[name].source.commit == rule.commit, name
    # another project's distribution: NVIDIA's is on no index
    assert "apex" not in names


def built(*without: str, defines: tuple[str, ...] = ("NDEBUG",)) -> tuple[Unit, ...]:
    """The log of a build of mamba-ssm that left some sources out."""
    return tuple(
        Unit(kind="compile", sources=(f"src/{path}",), requested=(), effective=(), status=0, defines=defines)
        for feature in MAMBA.features
        for path in feature.units
        if path not in without
    )


def found(units: tuple[Unit, ...], kernels: dict[str, set[str]]) -> list[str]:
    return [finding.message for finding in check_features(MAMBA, units, (), kernels)]


def test_mamba_asserts_every_one_of_its_translation_units() -> None:
    units = [path for feature in MAMBA.features for path in feature.units]
    assert len(set(units)) == len(units) == MAMBA.device_units == 9
    assert found(built(), dict.fromkeys(ARCHS, KERNELS)) == []


def test_a_wheel_of_mamba_that_somebody_else_built_is_seen() -> None:
    # what MAMBA_FORCE_BUILD prevents: setup.py downloads a wheel, the containers may even be right, no call was logged
    assert len(found((), dict.fromkeys(ARCHS, KERNELS))) == 9


def test_mamba_without_its_backward_pass_is_seen() -> None:
    forward = {name for name in KERNELS if "_fwd_" in name}
    left_out = [path for feature in MAMBA.features for path in feature.units if "_bwd_" in path]
    assert len(left_out) == 6
    assert len(found(built(*left_out), dict.fromkeys(ARCHS, forward))) == 7
    one_sided = found(built(), {"sm_90a": KERNELS, "sm_100a": forward})
    assert one_sided == ["no kernel of sm_100a matches *selective_scan_bwd_kernel*, though others have one"]
