from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.paths import checkout_root
from orbit.errors import InputError
from orbit.profile.model import load_profile, profile_names
from orbit.profile.policy import Policy, load_policy, own_file

GOOD = """
schema = 1
settings = ["environments"]
[[sources]]
name = "deep-ep"
source = "git"
url = "https://git.test/deep-ep"
commit = "0123456789012345678901234567890123456789"
reason = "r"
[[cuda]]
release = "13.0"
watch = ["nvidia-*"]
[[cuda.components]]
names = ["nvidia-cuda-nvcc"]
version = "==13.0.*"
reason = "r"
[[families]]
name = "pair"
members = ["a", "b"]
reason = "r"
[[pins]]
name = "a"
reason = "r"
"""


def load(tmp_path: Path, text: str) -> Policy:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "lock-policy.toml").write_text(text)
    return load_policy(tmp_path)


def test_the_example_is_good(tmp_path: Path) -> None:
    policy = load(tmp_path, GOOD)
    rule, table = policy.source("deep-ep"), policy.release("13.0")
    assert rule is not None
    assert rule.source == "git"
    assert table is not None
    assert (table.watches("nvidia-x"), table.watches("cuda-x")) == (True, False)
    assert table.component("nvidia-cuda-nvcc") is not None
    assert table.component("nvidia-x") is None
    assert policy.families[0].matches("a")
    assert policy.pin("b") is None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("schema = 1", "schema = 2", "schema 2"),
        ('source = "git"', 'source = "gti"', r"sources\[0\].source"),
        ('source = "git"', 'source = "registry"', "only a git source"),
        ('url = "https://git.test/deep-ep"', "", "url and commit"),
        ("0123456789012345678901234567890123456789", "0123456", "commit '0123456'"),
        ('name = "deep-ep"', 'name = "Deep_EP"', "'Deep_EP'"),
        ('version = "==13.0.*"', 'version = "13.0"', "version '13.0'"),
        ('release = "13.0"', 'release = "13"', "release '13'"),
        ('names = ["nvidia-cuda-nvcc"]', 'names = ["nvidia-cuda-nvcc", "nvidia-cuda-nvcc"]', "listed twice"),
        ('members = ["a", "b"]', "members = []", "no members"),
        ('members = ["a", "b"]', 'members = ["a", "b"]\ncombinations = [{ a = "1" }]', "either equal"),
        ('members = ["a", "b"]', 'members = ["a"]\nequal = false\ncombinations = [{ c = "1" }]', r"\['c'\]"),
        ('members = ["a", "b"]', 'members = ["a", "b-*"]\ncomplete = true', "full names"),
        ('[[pins]]\nname = "a"\nreason = "r"', '[[pins]]\nname = "a"\nreason = " "', "reason is empty"),
        ('[[pins]]\nname = "a"', '[[pins]]\nname = "a"\nwhy = "x"', "why"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(InputError, match=says):
        load(tmp_path, GOOD.replace(old, new))


def test_the_shipped_policies_describe_the_release_of_every_profile() -> None:
    profiles = [load_profile(name) for name in profile_names()]
    assert len(profiles) >= 2
    for profile in profiles:
        policy = load_policy(checkout_root(), profile.policies)
        assert policy.release(profile.cuda) is not None
        assert policy.settings
        assert own_file(profile.policies) == f"env/lock-policies/{profile.policies[-1]}"


def test_every_shipped_policy_is_some_profiles() -> None:
    named = {file for name in profile_names() for file in load_profile(name).policies}
    assert {path.name for path in (checkout_root() / "env" / "lock-policies").iterdir()} == named


def both(tmp_path: Path, more: str) -> Policy:
    (tmp_path / "env" / "lock-policies").mkdir(parents=True)
    (tmp_path / "env" / "lock-policy.toml").write_text(GOOD)
    (tmp_path / "env" / "lock-policies" / "own.toml").write_text(f"schema = 1\n{more}")
    return load_policy(tmp_path, ("own.toml",))


def test_the_files_of_a_profile_are_one_policy(tmp_path: Path) -> None:
    policy = both(
        tmp_path, '[[pins]]\nname = "b"\nreason = "r"\n[[cuda]]\nrelease = "12.8"\nwatch = []\ncomponents = []\n'
    )
    assert [pin.name for pin in policy.pins] == ["a", "b"]
    assert policy.release("12.8") is not None
    assert policy.release("13.0") is not None
    assert load_policy(tmp_path).pin("b") is None


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[[pins]]\nname = "a"\nreason = "r"\n', r"own\.toml: pins: a listed twice"),
        ('[[cuda]]\nrelease = "13.0"\nwatch = []\ncomponents = []\n', r"own\.toml: cuda: 13\.0 listed twice"),
        ('[[pins]]\nname = "B"\nreason = "r"\n', r"own\.toml: pin B"),
        ('settings = ["environments"]\n', r"own\.toml: settings: environments listed twice"),
    ],
)
def test_what_two_files_say_twice_names_the_second(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        both(tmp_path, more)


def test_a_policy_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "lock-policy.toml").write_text(GOOD)
    with pytest.raises(InputError, match=r"lock-policies/none\.toml: no such file"):
        load_policy(tmp_path, ("none.toml",))
