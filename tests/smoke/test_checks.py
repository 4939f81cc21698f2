"""Kinds of check: every one exists, is used by a shipped list, and unknown ones are refused."""

from __future__ import annotations

import pytest

from orbit.core.paths import data_file
from orbit.errors import InputError
from orbit.image.smoke.run import load_list
from orbit.profile.model import load_profile, profile_names
from orbit.smoke.__main__ import JOB_LIST
from orbit.smoke.checks import KINDS, load_kind, require_known_kinds
from orbit.smoke.model import parse_list

GOOD = {"schema": 1, "name": "l", "checks": [{"name": "a", "kind": "import"}]}


def test_unknown_kind() -> None:
    smoke = parse_list(GOOD | {"checks": [{"name": "a", "kind": "magic"}]}, "l.toml")
    with pytest.raises(InputError, match="kind = 'magic'"):
        require_known_kinds(smoke, "l.toml")


def test_a_needs_driver_import_names_one_module() -> None:
    entry = {"name": "a", "kind": "import", "expect": "needs-driver", "parameters": {"modules": ["a", "b"]}}
    with pytest.raises(InputError, match="just one module"):
        require_known_kinds(parse_list(GOOD | {"checks": [entry]}, "l.toml"), "l.toml")


def test_every_shipped_list_loads_and_is_used() -> None:
    names = sorted(path.stem for path in data_file("containers", "smoke").glob("*.toml"))
    assert len(names) >= 4
    used = {JOB_LIST}
    for name in profile_names():
        profile = load_profile(name)
        used |= {*profile.smoke, *profile.smoke_gpu}
        assert not any(check.needs == "gpu" for item in profile.smoke for check in load_list(item).checks)
        assert all(check.needs == "gpu" for item in profile.smoke_gpu for check in load_list(item).checks)
    assert used == set(names)


def test_every_kind_is_used_by_a_list_and_its_function_exists_without_the_stack() -> None:
    lists = [load_list(path.stem) for path in data_file("containers", "smoke").glob("*.toml")]
    assert {check.kind for smoke in lists for check in smoke.checks} == set(KINDS)
    for kind in KINDS:
        assert callable(load_kind(kind))
