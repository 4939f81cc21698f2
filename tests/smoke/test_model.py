"""Smoke lists: what is accepted, what is refused and how it says so; every shipped list loads."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from orbit.core.paths import data_file
from orbit.errors import InputError
from orbit.image.smoke import load_list
from orbit.profile.model import load_profile, profile_names
from orbit.smoke.checks import KINDS, load_kind, require_known_kinds
from orbit.smoke.model import Context, Target, parse_context, parse_list

GOOD: dict[str, Any] = {"schema": 1, "name": "l", "checks": [{"name": "a", "kind": "import"}]}


def test_defaults() -> None:
    smoke = parse_list(GOOD, "l.toml")
    assert smoke.uids == (0, 65534)
    assert (smoke.checks[0].needs, smoke.checks[0].expect) == ("none", "passed")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": 2}, "schema = 2"),
        ({"chekcs": []}, "unknown key chekcs"),
        ({"checks": []}, "no checks"),
        ({"name": ""}, "name is missing"),
        ({"uids": ["root"]}, "uids"),
        ({"checks": [{"name": "a", "kind": "import", "need": "gpu"}]}, r"checks\[0\]: unknown key need"),
        ({"checks": [{"name": "a", "kind": "import", "needs": "tpu"}]}, "needs = 'tpu'"),
        ({"checks": [{"name": "a", "kind": "import", "expect": "failed"}]}, "expect = 'failed'"),
        ({"checks": [{"name": "a", "kind": "import", "timeout_s": 0}]}, "timeout_s = 0"),
        ({"checks": [{"name": "a", "kind": "import"}] * 2}, "used twice: a"),
        ({"checks": [{"name": "a"}]}, "kind is missing"),
        ({"checks": ["a"]}, "not a table"),
    ],
)
def test_bad_lists_are_refused_with_their_place(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        parse_list(GOOD | change, "l.toml")
    assert "l.toml" in str(caught.value)
    assert caught.value.fix


def test_unknown_kind() -> None:
    smoke = parse_list(GOOD | {"checks": [{"name": "a", "kind": "magic"}]}, "l.toml")
    with pytest.raises(InputError, match="kind = 'magic'"):
        require_known_kinds(smoke, "l.toml")


def test_a_needs_driver_import_names_one_module() -> None:
    entry = {"name": "a", "kind": "import", "expect": "needs-driver", "parameters": {"modules": ["a", "b"]}}
    with pytest.raises(InputError, match="just one module"):
        require_known_kinds(parse_list(GOOD | {"checks": [entry]}, "l.toml"), "l.toml")


def test_context_survives_json() -> None:
    target = Target(name="h100", capability="9.0", sass="sm_90", feature="sm_90a")
    context = Context(prefix="/p", cuda="13.0", targets=(target,), lock={"a": ("1",)}, uid=0)
    assert parse_context(asdict(context)) == context


def test_every_shipped_list_loads_and_is_used() -> None:
    names = sorted(path.stem for path in data_file("containers", "smoke").glob("*.toml"))
    assert len(names) >= 4
    used: set[str] = set()
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
