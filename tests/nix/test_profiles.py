"""nix/profiles.nix reads what Orbit reads, and nix/*.toml fit what they are about."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from orbit.audit.known.knowledge import libraries
from orbit.audit.known.vendor import vendor
from orbit.core.paths import data_file
from orbit.kernels.recipe import load_recipe
from orbit.profile.lock import read_lock
from orbit.profile.model import Profile, load_profile, profile_names
from tests.nix.nixtools import ROOT, evaluate


def toml(name: str) -> dict[str, Any]:
    with open(ROOT / name, "rb") as file:
        return tomllib.load(file)


def profiles() -> list[Profile]:
    return [load_profile(name) for name in profile_names()]


def locked_names() -> set[str]:
    """Every distribution of every profile's lock, and every one that is compiled here."""
    files = {ROOT / profile.lock / "uv.lock" for profile in profiles()}
    locked = {package.name for path in files if path.is_file() for package in read_lock(path).packages}
    recipes = (ROOT / "kernels" / "recipes").glob("*.toml")
    return locked | {load_recipe(path.stem).dist for path in recipes}


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What Nix sees, but for the folders of the locks, which only a store can show."""
    data: dict[str, Any] = evaluate(
        "let all = import ./nix/profiles.nix; in"
        ' all // { profiles = builtins.mapAttrs (name: each: removeAttrs each [ "root" ]) all.profiles; }'
    )
    return data


@pytest.mark.integration
def test_nix_sees_every_profile_as_orbit_does(seen: dict[str, Any]) -> None:
    assert set(seen["profiles"]) == set(profile_names())
    for profile in profiles():
        nix = seen["profiles"][profile.name]
        assert (nix["name"], nix["description"], nix["python"], nix["cuda"], nix["extras"]) == (
            profile.name,
            profile.description,
            profile.python,
            profile.cuda,
            list(profile.extras),
        )
        assert nix["lock"] == profile.lock
        assert nix["toolkit"] == profile.toolkit
        assert nix["image"]["name"] == profile.image.name


@pytest.mark.integration
def test_each_kernel_of_a_profile_is_built_or_left_out_with_a_reason(seen: dict[str, Any]) -> None:
    for profile in profiles():
        nix = seen["profiles"][profile.name]
        recipes = [load_recipe(name) for name in (*profile.kernels.core, *profile.kernels.extended)]
        compiled = {recipe.dist for recipe in recipes if recipe.mode == "source"}
        built = {recipe["dist"] for recipe in nix["kernels"]}
        assert built | set(nix["leftOut"]) == compiled
        assert built.isdisjoint(nix["leftOut"])
        assert all(nix["leftOut"].values())
        core = {load_recipe(name).dist for name in profile.kernels.core}
        assert built == (compiled & core if profile.toolkit == "lock" else set())


@pytest.mark.integration
def test_nix_ignores_what_the_audit_accepts_and_nothing_else(seen: dict[str, Any]) -> None:
    driver = toml("kernels/expectations/system.toml")["driver"]
    for profile in profiles():
        own = [toml(f"kernels/expectations/{name}").get("absent", []) for name in profile.expectations]
        absent = [soname for entry in vendor().absent for soname in entry.sonames]
        absent += [soname for entries in own for entry in entries for soname in entry["sonames"]]
        assert seen["profiles"][profile.name]["missing"] == [*driver, *absent]


@pytest.mark.integration
def test_the_driver_s_files_are_those_of_the_audit(seen: dict[str, Any]) -> None:
    assert seen["driver"] == {"files": list(libraries().driver.files), "others": list(libraries().driver.others)}


@pytest.mark.integration
def test_a_waiver_s_date_does_not_stop_nix(seen: dict[str, Any]) -> None:
    """Nix's TOML reader knows no dates; the profile with waivers must be read all the same."""
    text = data_file("kernels", "expectations", "cu130.toml").read_text()
    assert re.search(r"^expires = \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert "cu130" in seen["profiles"]


def test_every_distribution_that_nix_names_is_in_some_lock() -> None:
    wheels = toml("nix/wheels.toml")
    named = set(wheels["libraries"]) | {name for names in wheels["libraries"].values() for name in names}
    named |= {name for entry in wheels["collisions"] for name in entry["dists"]}
    assert len(named) >= 20
    # CUDA 12's are those of a profile that may have no lock yet
    assert {name for name in named - locked_names() if not name.endswith("-cu12")} <= {"sgl-kernel"}


def test_libraries_never_need_each_other_in_a_circle() -> None:
    table: dict[str, list[str]] = toml("nix/wheels.toml")["libraries"]

    def follow(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path, name))
        for further in table.get(name, ()):
            follow(further, (*path, name))

    for name in table:
        follow(name, ())


def test_every_package_from_nixpkgs_stands_for_one_that_images_have() -> None:
    names = set(toml("nix/wheels.toml")["nixpkgs"])
    assert names <= {entry["package"] for entry in toml("kernels/expectations/system.toml")["base"]}
    assert names <= set(toml("containers/base.toml")["packages"])


def test_the_host_compiler_is_one_that_nvcc_accepts() -> None:
    compilers = {entry["cuda"]: entry for entry in toml("nix/tools.toml")["compilers"]}
    assert {profile.cuda for profile in profiles() if profile.toolkit == "lock"} <= set(compilers)
    assert all(entry["gcc"] <= entry["newest"] for entry in compilers.values())


def test_the_page_lists_the_tools_of_the_shells() -> None:
    page = (ROOT / "docs" / "nix.md").read_text()
    rows = re.findall(r"^\| `([^|]+)` \| ([^|]+) \|$", page, re.MULTILINE)
    tools = toml("nix/tools.toml")["tools"]
    expected = [("`, `".join(tool["programs"]), tool["reason"]) for tool in tools]
    assert [row for row in rows if row in expected] == expected
