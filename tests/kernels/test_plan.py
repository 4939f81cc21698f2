"""orbit.kernels.plan: what enters a wheel's key and what does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from orbit.core.console import Silent
from orbit.core.paths import checkout_root
from orbit.core.records import content_key
from orbit.core.store import Store
from orbit.errors import InputError
from orbit.kernels import build as builds
from orbit.kernels import plan as plans
from orbit.kernels.plan import Item, make_plan
from orbit.kernels.recipe import Recipe, load_recipe
from orbit.kernels.shim.config import Part
from orbit.profile.model import Profile, load_profile

EVERYTHING = Part(archs=[], index=1, count=1)


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan must not depend on this machine's compiler in a unit test."""
    monkeypatch.setattr(plans, "host_toolchain", lambda: "g++ 12.2.0")


def item(tmp_path: Path, name: str, root: Path | None = None, profile: str = "cu130") -> Item:
    plan = make_plan(load_profile(profile), root or checkout_root(), Store(tmp_path), tier="all")
    return next(each for each in plan.items if each.recipe.name == name)


def key(tmp_path: Path, name: str = "causal-conv1d", root: Path | None = None) -> str:
    return content_key(item(tmp_path, name, root).inputs)


def test_core_skips_the_big_ones_with_a_reason(tmp_path: Path) -> None:
    profile = load_profile("cu130")
    plan = make_plan(profile, checkout_root(), Store(tmp_path), tier="core")
    names = [each.recipe.name for each in (*plan.items, *plan.checks)]
    assert sorted(names) == sorted(profile.kernels.core)
    assert plan.todo() == tuple(names)
    assert "causal-conv1d" in names
    assert [skip.what for skip in plan.skipped] == [load_recipe(name).dist for name in profile.kernels.extended]
    assert all("core-hours" in skip.reason and "--kernels all" in skip.reason for skip in plan.skipped)
    assert all(not each.cached for each in (*plan.items, *plan.checks))


def test_all_skips_nothing(tmp_path: Path) -> None:
    plan = make_plan(load_profile("cu130"), checkout_root(), Store(tmp_path), tier="all")
    kernels = load_profile("cu130").kernels
    assert len(plan.items) + len(plan.checks) == len(kernels.core) + len(kernels.extended)
    assert plan.skipped == ()
    with pytest.raises(InputError, match="no tier"):
        make_plan(load_profile("cu130"), checkout_root(), Store(tmp_path), tier="extended")


def test_estimates_do_not_rebuild_but_everything_else_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(tmp_path)

    def changed(**fields: object) -> str:
        def load(name: str) -> Recipe:
            return msgspec.structs.replace(load_recipe(name), **fields)

        with monkeypatch.context() as patch:
            patch.setattr(plans, "load_recipe", load)
            return key(tmp_path)

    assert changed(memory_gib=30, core_hours=99) == before
    others = [
        changed(env={"X": "1"}),
        changed(include=("nvidia/cudnn/include",)),
        changed(group="cuda"),
        changed(device_units=4),
    ]
    assert len({before, *others}) == 5
    with monkeypatch.context() as patch:
        patch.setattr(plans, "shim_hash", lambda: "another shim")
        assert key(tmp_path) != before
    with monkeypatch.context() as patch:
        patch.setattr(plans, "host_toolchain", lambda: "g++ 14.1.0")
        assert key(tmp_path) != before
    with monkeypatch.context() as patch:
        patch.setattr(plans, "python_build", lambda: "configured otherwise")
        assert key(tmp_path) != before
    assert key(tmp_path) == before


def test_a_changed_source_file_rebuilds_only_its_recipe(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    for folder in ("src", "patches"):
        shutil.copytree(checkout_root() / "kernels" / folder, root / "kernels" / folder)
    shutil.copyfile(checkout_root() / "uv.lock", root / "uv.lock")
    probe, conv = key(tmp_path, "orbit-probe", root), key(tmp_path, "causal-conv1d", root)
    source = root / "kernels" / "src" / "orbit_probe" / "csrc" / "probe.cu"
    source.write_text(source.read_text() + "\n")
    assert key(tmp_path, "orbit-probe", root) != probe
    assert key(tmp_path, "causal-conv1d", root) == conv


def test_the_same_wheel_serves_both_profiles(tmp_path: Path) -> None:
    one = item(tmp_path, "orbit-probe", profile="cu130")
    other = item(tmp_path, "orbit-probe", profile="probe")
    assert content_key(one.inputs) == content_key(other.inputs)


def test_published_wheels_are_checked_and_never_built(tmp_path: Path) -> None:
    plan = make_plan(load_profile("cu130"), checkout_root(), Store(tmp_path), tier="all")
    assert {each.recipe.mode for each in plan.items} == {"source"}
    assert {each.recipe.mode for each in plan.checks} <= {"prebuilt", "jit"}
    assert all(each.source.kind == "wheel" for each in plan.checks)


def test_recipes_by_name_whatever_their_tier(tmp_path: Path) -> None:
    plan = make_plan(load_profile("probe"), checkout_root(), Store(tmp_path), tier="core", names=("flash-attn",) * 2)
    assert [each.recipe.name for each in plan.items] == ["flash-attn"]
    assert plan.skipped == ()
    with pytest.raises(InputError, match="no recipe named 'flash'"):
        make_plan(load_profile("probe"), checkout_root(), Store(tmp_path), tier="core", names=("flash",))


def test_what_is_asserted_changes_the_wheel_s_key_and_not_the_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = item(tmp_path, "causal-conv1d")

    def load(name: str) -> Recipe:
        return msgspec.structs.replace(load_recipe(name), device_units=4)

    monkeypatch.setattr(plans, "load_recipe", load)
    after = item(tmp_path, "causal-conv1d")
    assert content_key(after.inputs) != content_key(before.inputs)
    assert after.compile_key == before.compile_key


def test_code_that_decides_about_a_wheel_is_in_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = item(tmp_path, "causal-conv1d")
    real = plans.code_hash

    def changed(modules: tuple[str, ...]) -> Item:
        with monkeypatch.context() as patch:
            patch.setattr(plans, "code_hash", lambda asked: "other" if asked == modules else real(asked))
            return item(tmp_path, "causal-conv1d")

    finished, compiled = changed(plans.FINISHING), changed(plans.COMPILING)
    assert len({content_key(each.inputs) for each in (before, finished, compiled)}) == 3
    assert finished.compile_key == before.compile_key
    assert compiled.compile_key != before.compile_key
    for name in (*plans.COMPILING, *plans.FINISHING):
        assert (Path(plans.__file__).parent / name).exists()


@pytest.mark.parametrize("way", ["build", "part"])
def test_expectations_of_a_target_that_the_profile_lacks_end_a_build_before_it_begins(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(*_args: object, **_named: object) -> None:
        pytest.fail("something is compiled")

    def build(profile: Profile) -> None:
        root, store, names = checkout_root(), Store(tmp_path), ("causal-conv1d",)
        if way == "build":
            builds.build_kernels(profile, root, store, tier="all", progress=Silent(), names=names)
        else:
            builds.compile_part(profile, root, store, EVERYTHING, tier="all", progress=Silent(), names=names)

    monkeypatch.setattr(builds, "run_jobs", begun)
    profile = load_profile("cu130")
    hopper = msgspec.structs.replace(profile, targets=profile.targets[:1])
    with pytest.raises(InputError, match=r"cu130\.toml: gaps .*: target 'b200' is not in profile cu130"):
        build(hopper)
    with pytest.raises(pytest.fail.Exception, match="something is compiled"):
        build(msgspec.structs.replace(hopper, expectations=()))
