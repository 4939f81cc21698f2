"""orbit.profile.diff.rules: the shipped data is sound, each mistake is named, and `when` means what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.paths import checkout_root
from orbit.errors import InputError
from orbit.profile.diff.consequences import COMPUTED
from orbit.profile.diff.records import Change, Kind
from orbit.profile.diff.rules import Rename, Rule, When, load_rules
from orbit.profile.model import load_profile, profile_names
from tests.profile.diff.sides import rules

GOOD = """
schema = 1
drivers = [{ cuda = "13.0", own = "580", minimum = "580" }]
renames = [{ a = "x-*-cu12", b = "x-*", reason = "r" }]
[[consequences]]
id = "driver"
computed = true
weight = "stops"
title = "t"
action = "a"
[[consequences]]
id = "own"
weight = "note"
title = "t"
action = "a"
packages = ["p"]
"""


def moved(old: str, new: str, kind: Kind = "moved", name: str = "p", was: str = "") -> Change:
    return Change(
        name=name, was=was, kind=kind, old=old, new=new, old_bytes=1, new_bytes=1, installed=True, binary=False
    )


def rule(when: When, *packages: str) -> Rule:
    return Rule(id="r", weight="note", title="t", action="a", packages=packages or ("p",), when=when)


def test_the_shipped_rules_know_the_driver_of_every_profile() -> None:
    found = rules()
    for name in profile_names():
        assert found.driver(load_profile(name).cuda) is not None
    assert {each.id for each in found.consequences if each.computed} == set(COMPUTED)
    assert all(each.action and each.title for each in found.consequences)


@pytest.mark.parametrize(
    ("when", "old", "new", "kind", "said"),
    [
        ("any", "1.0", "1.0", "replaced", True),
        ("any", "", "1.0", "added", True),
        ("major", "4.57.1", "5.12.1", "moved", True),
        ("major", "4.57.1", "4.58", "moved", False),
        ("major", "4.57.1", "", "removed", True),
        ("minor", "0.18.2", "0.18.3", "moved", False),
        ("minor", "0.18", "0.19", "moved", True),
        ("minor", "1.9", "2.9", "moved", True),
        ("feature", "4.57.1", "4.58.0", "moved", True),
        ("feature", "4.57.1", "5.12.1", "moved", False),
        ("feature", "", "5.12.1", "added", False),
        ("presence", "1", "2", "moved", False),
        ("presence", "", "2", "added", True),
        ("major", "no version", "another", "moved", True),
    ],
)
def test_when(when: When, old: str, new: str, kind: Kind, said: bool) -> None:
    assert rule(when).concerns(moved(old, new, kind)) is said


def test_a_rule_concerns_a_package_under_either_name() -> None:
    renamed = moved("1", "2", "renamed", name="nvidia-nccl-cu12", was="nvidia-nccl-cu13")
    assert rule("any", "nvidia-nccl-cu13").concerns(renamed)
    assert rule("any", "nvidia-nccl-*").concerns(renamed)
    assert not rule("any", "nvidia-cudnn-*").concerns(renamed)


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("nvidia-cublas", ("nvidia-cublas-cu12",)),
        ("nvidia-cublas-cu12", ("nvidia-cublas", "nvidia-cublas-cu12-cu12")),
        ("nvidia--cu12", ("nvidia--cu12-cu12",)),
        ("torch", ()),
    ],
)
def test_names_through_a_pattern(name: str, others: tuple[str, ...]) -> None:
    assert Rename(a="nvidia-*-cu12", b="nvidia-*", reason="r").other(name) == others


def load(tmp_path: Path, text: str) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "lock-diff.toml").write_text(text)
    load_rules(tmp_path, frozenset({"driver"}))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("schema = 1", "schema = 2", "schema 2"),
        ('id = "own"', 'id = "driver"', "driver listed twice"),
        ('packages = ["p"]', "", "consequence own: either computed"),
        ("computed = true", 'computed = true\npackages = ["p"]', "consequence driver: either computed"),
        ('id = "driver"', 'id = "chauffeur"', "chauffeur, driver without the other half"),
        ('b = "x-*"', 'b = "x"', "one \\* in both"),
        ('weight = "note"', 'weight = "heavy"', "weight"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(InputError, match=says):
        load(tmp_path, GOOD.replace(old, new))


def test_the_example_is_good(tmp_path: Path) -> None:
    load(tmp_path, GOOD)
    with pytest.raises(InputError, match="no such file"):
        load_rules(checkout_root() / "docs", frozenset())
