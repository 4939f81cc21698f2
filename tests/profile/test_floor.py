"""orbit.profile.floor: what is stated twice and differs is named."""

from __future__ import annotations

from typing import Any

import pytest

from orbit.core.paths import checkout_root
from orbit.errors import InputError
from orbit.profile.floor import floor_drift
from orbit.profile.freshness import read_project
from orbit.profile.model import load_profile, profile_names
from orbit.profile.place import lock_folder


def project(*dependencies: str, python: str = ">=3.12", environments: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "project": {"requires-python": python, "dependencies": list(dependencies)},
        "tool": {"uv": {"environments": list(environments)}},
    }


def drift(here: dict[str, Any], there: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each.subject, each.here, each.there) for each in floor_drift(here, there)]


def test_equal_but_for_spelling_and_order() -> None:
    assert drift(project("A_b>=1,<2", "c[x]"), project("c[x]", "a-b<2,>=1")) == []
    assert drift({}, {}) == []


@pytest.mark.parametrize(
    ("here", "there", "found"),
    [
        (project("a>=1"), project("a>=2"), [("a", "a>=1", "a>=2")]),
        (project("a>=1"), project(), [("a", "a>=1", "")]),
        (project(), project("a"), [("a", "", "a")]),
        (project("a[x]"), project("a"), [("a", "a[x]", "a")]),
        (project("a; os_name == 'nt'"), project("a"), [("a", 'a; os_name == "nt"', "a")]),
        (project("a<2", "a>=1"), project("a<2"), [("a", "a<2 and a>=1", "a<2")]),
        (project(python=">=3.13"), project(), [("requires-python", ">=3.13", ">=3.12")]),
        (project(environments=("x",)), project(), [("environments", "x", "")]),
    ],
)
def test_each_difference(here: dict[str, Any], there: dict[str, Any], found: list[tuple[str, str, str]]) -> None:
    assert drift(here, there) == found


def test_a_requirement_that_is_none() -> None:
    with pytest.raises(InputError, match="requirement 'a b'"):
        floor_drift(project("a b"), project())


def test_extras_and_groups_are_not_compared() -> None:
    more = project("a") | {"dependency-groups": {"dev": ["pytest"]}}
    more["project"]["optional-dependencies"] = {"stack": ["torch"]}
    assert drift(more, project("a")) == []


def test_the_shipped_ones_agree() -> None:
    root = checkout_root()
    own = [profile for name in profile_names() if (profile := load_profile(name)).lock]
    assert own
    for profile in own:
        assert floor_drift(read_project(root), read_project(lock_folder(profile, root))) == ()
