"""orbit.kernels.recipe: every shipped recipe loads, and a wrong one says file, key and fix."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orbit.core.paths import checkout_root
from orbit.errors import InputError
from orbit.kernels import recipe as recipes
from orbit.kernels.recipe import arch_words, gencode_pairs, load_recipe, recipe_names, render_env
from orbit.kernels.sources import resolve_source
from orbit.profile.model import Profile, load_profile, profile_names
from orbit.profile.place import profile_lock

GOOD = """
schema = 1
name = "thing"
dist = "thing"
tier = "core"
group = "cuda"
memory_gib = 1
core_hours = 1
device_units = 1
artifacts = ["*.so"]
[source]
kind = "sdist"
"""


def test_every_shipped_recipe_loads_and_has_a_source() -> None:
    root = checkout_root()
    assert len(recipe_names()) >= 5
    used = set()
    for profile in map(load_profile, profile_names()):
        lock = profile_lock(profile, root)
        for name in (*profile.kernels.core, *profile.kernels.extended):
            recipe = load_recipe(name)
            source = resolve_source(recipe, lock, root)
            assert len(source.sha256) == 64
            assert source.version
            assert recipe.group in lock.root.dev_dependencies
            used.add(name)
    assert used == set(recipe_names()), "a recipe that no profile names is never built"


def test_profiles_name_recipes_of_the_right_tier() -> None:
    for name in profile_names():
        profile = load_profile(name)
        assert [load_recipe(each).tier for each in profile.kernels.core] == ["core"] * len(profile.kernels.core)
        assert {load_recipe(each).tier for each in profile.kernels.extended} <= {"extended"}


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "kernels" / "recipes"
    folder.mkdir(parents=True)
    monkeypatch.setattr(recipes, "data_root", lambda: tmp_path)
    return folder


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('name = "thing"', 'name = "other"', "is called thing.toml"),
        ("schema = 1", "schema = 2", "schema 2"),
        ('group = "cuda"', 'group = "conda"', "group"),
        ("memory_gib = 1", "memory_gib = 0", "memory_gib"),
        ("artifacts = ", "artefacts = ", "artefacts"),
        ('kind = "sdist"', 'kind = "local"', "does not fit"),
        ('kind = "sdist"', 'kind = "sdist"\nfolder = "x"\n[env]\nA = "{nonsense}"', "nonsense"),
        ('tier = "core"', 'tier = "huge"', "tier"),
        ("[source]", "[source", "not valid TOML"),
    ],
)
def test_a_wrong_recipe_names_file_and_key(shipped: Path, old: str, new: str, complaint: str) -> None:
    assert old in GOOD
    (shipped / "thing.toml").write_text(GOOD)
    assert load_recipe("thing").name == "thing"
    (shipped / "thing.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(InputError, match=complaint) as caught:
        load_recipe("thing")
    assert "thing.toml" in str(caught.value)
    assert caught.value.fix


def test_an_unknown_recipe_lists_the_known(shipped: Path) -> None:
    (shipped / "thing.toml").write_text(GOOD)
    with pytest.raises(InputError, match="thing"):
        load_recipe("think")


def test_the_four_conventions() -> None:
    assert arch_words(("sm_90a", "sm_100a")) == {
        "torch_archs": "9.0a;10.0a",
        "feature_archs": "90a;100a",
        "base_archs": "90;100",
        "sm_archs": "sm_90a;sm_100a",
    }
    assert render_env(load_recipe("flash-attn"), ("sm_90a", "sm_100a"))["FLASH_ATTN_CUDA_ARCHS"] == "90;100"


def with_target(feature: str, cuda: str = "13.0") -> Profile:
    profile = load_profile("probe")
    target = msgspec.structs.replace(profile.targets[0], feature=feature)
    return msgspec.structs.replace(profile, targets=(target, *profile.targets[1:]), cuda=cuda)


def test_pairs_come_from_the_profile() -> None:
    assert gencode_pairs(load_profile("cu130")) == (("compute_90a", "sm_90a"), ("compute_100a", "sm_100a"))
    assert gencode_pairs(with_target("sm_100a")) == (("compute_100a", "sm_100a"),)
    for wrong in (with_target("sm_90a", cuda="12.4"), with_target("sm_70")):
        with pytest.raises(InputError, match="cannot compile"):
            gencode_pairs(wrong)
