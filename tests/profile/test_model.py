"""Profiles: the shipped ones load, and every mistake is named with file, key and fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orbit.core.paths import data_root
from orbit.errors import InputError
from orbit.profile import model
from orbit.profile.model import load_profile, profile_names

type Edit = Callable[[str], str]


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data root of our own with a copy of the small profile."""
    folder = tmp_path / "env" / "profiles"
    folder.mkdir(parents=True)
    (folder / "probe.toml").write_text((data_root() / "env" / "profiles" / "probe.toml").read_text())
    monkeypatch.setattr(model, "data_root", lambda: tmp_path)
    return folder


def test_every_shipped_profile_loads() -> None:
    assert set(profile_names()) >= {"cu130", "probe"}
    for name in profile_names():
        profile = load_profile(name)
        assert profile.name == name
        assert profile.description
        assert profile.smoke


def test_the_real_profile_runs_on_hopper_and_blackwell() -> None:
    profile = load_profile("cu130")
    assert profile.target_archs() == ("sm_90a", "sm_100a")
    assert {device for target in profile.targets for device in target.devices} == {"H100", "H200", "B200"}
    assert [target.capability for target in profile.targets] == ["9.0", "10.0"]
    assert profile.cuda == "13.0"


def test_the_last_layer_takes_whatever_is_left() -> None:
    for name in profile_names():
        layers = load_profile(name).image.layers
        assert layers[-1].dists == ("*",)
        assert len({layer.name for layer in layers}) == len(layers)


def test_files_a_profile_names_are_there() -> None:
    root = data_root()
    for name in profile_names():
        profile = load_profile(name)
        wanted = [
            *(root / "kernels" / "expectations" / file for file in profile.expectations),
            *(root / "kernels" / "recipes" / f"{r}.toml" for r in (*profile.kernels.core, *profile.kernels.extended)),
            *(root / "containers" / "smoke" / f"{smoke}.toml" for smoke in (*profile.smoke, *profile.smoke_gpu)),
            *(root / "env" / "lock-policies" / file for file in profile.policies),
            root / "containers" / f"{profile.image.base}.toml",
        ]
        assert len(wanted) >= 5
        assert [str(path.relative_to(root)) for path in wanted if not path.is_file()] == []


def test_an_unknown_name_lists_the_known_ones(profiles: Path) -> None:
    with pytest.raises(InputError, match="no profile named 'cu999'") as caught:
        load_profile("cu999")
    assert caught.value.fix == "known profiles: probe"
    for name in ("../probe", "", "probe.toml"):
        with pytest.raises(InputError, match="no profile named"):
            load_profile(name)


def replace(old: str, new: str) -> Edit:
    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (replace("schema = 1", "schema = 2"), "schema 2 is not known"),
        (replace('name = "probe"', 'name = "prob"'), "the file is called probe.toml"),
        (replace('capability = "9.0"', 'capability = "90"'), "targets.h100.capability = '90'"),
        (replace('capability = "9.0"', "capability = 9.0"), "$.targets[0].capability"),
        (replace('sass = "sm_90"', 'sass = "90"'), "targets.h100.sass = '90'"),
        (replace('feature = "sm_100a"', 'feature = "sm100a"'), "targets.b200.feature = 'sm100a'"),
        (replace('prefix = "/opt/orbit"', 'prefix = "opt/orbit"'), "image.prefix = 'opt/orbit'"),
        (replace('prefix = "/opt/orbit"', 'prefix = "/"'), "image.prefix = '/'"),
        (replace('cuda = "13.0"\n', ""), "cuda"),
        (replace("extras = []", 'extras = []\nlock = "/elsewhere"'), "lock = '/elsewhere'"),
        (replace("extras = []", 'extras = []\nlock = "env/../../elsewhere"'), "lock = 'env/../../elsewhere'"),
        (replace("extras = []", 'extras = []\nlock = "."'), "lock = '.'"),
        (replace("extras = []", 'extras = []\nlock = "env/"'), "lock = 'env/'"),
        (replace("extras = []", 'extras = []\ntoolkit = "any"'), "toolkit"),
        (replace("[kernels]", 'colour = "red"\n[kernels]'), "colour"),
        (lambda text: text[: text.index("[[targets]]")] + "targets = []\n" + text[text.index("[kernels]") :],
         "targets is empty"),
    ],
)  # fmt: skip
def test_each_mistake_names_the_file_and_the_key(profiles: Path, edit: Edit, said: str) -> None:
    path = profiles / "probe.toml"
    path.write_text(edit(path.read_text()))
    with pytest.raises(InputError) as caught:
        load_profile("probe")
    assert str(path) in caught.value.what
    assert said in caught.value.what
    assert caught.value.fix
