"""Smoke lists: what is accepted, what is refused and how it says so."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from orbit.errors import InputError
from orbit.smoke.model import Check, Context, Target, parse_context, parse_list, plan_of

GOOD: dict[str, Any] = {"schema": 1, "name": "l", "checks": [{"name": "a", "kind": "import"}]}


def test_defaults() -> None:
    smoke = parse_list(GOOD, "l.toml")
    assert smoke.uids == (0, 65534)
    assert (smoke.checks[0].needs, smoke.checks[0].expect) == ("cpu", "passed")


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
        ({"checks": [{"name": "a", "kind": "import", "memory_mb": -1}]}, "memory_mb = -1"),
        ({"checks": [{"name": "a", "kind": "import", "gpus": 2}]}, "gpus or target of a check without a GPU"),
        ({"checks": [{"name": "a", "kind": "import", "needs": "gpu", "gpus": 0}]}, "gpus = 0"),
        ({"conditions": {"shm": 64}}, "conditions: unknown key shm"),
        ({"conditions": {"shm_mb": "64m"}}, "shm_mb = '64m'"),
        ({"conditions": {"variables": {"HOME": 1}}}, "variables is not a table of texts"),
        ({"conditions": []}, "conditions: not a table"),
        ({"checks": [{"name": "a"}]}, "kind is missing"),
        ({"checks": ["a"]}, "not a table"),
    ],
)
def test_bad_lists_are_refused_with_their_place(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        parse_list(GOOD | change, "l.toml")
    assert "l.toml" in str(caught.value)
    assert caught.value.fix


def test_context_survives_json() -> None:
    target = Target(name="h100", capability="9.0", sass="sm_90", feature="sm_90a")
    context = Context(prefix="/p", cuda="13.0", targets=(target,), lock={"a": ("1",)}, uid=0)
    assert parse_context(asdict(context)) == context


def test_what_goes_into_an_image_is_what_comes_out_there() -> None:
    change = {
        "checks": [{"name": "a", "kind": "import", "needs": "gpu", "gpus": 2, "target": "b200", "memory_mb": 5}],
        "conditions": {"shm_mb": 64, "variables": {"HOME": ""}},
        "uids": [7],
    }
    smoke = parse_list(GOOD | change, "l.toml")
    target = Target(name="b200", capability="10.0", sass="sm_100", feature="sm_100a")
    context = Context(prefix="/p", targets=(target,), lock={"a": ("1", "2")}, uid=7, in_place=True)
    plan = json.loads(json.dumps(plan_of(smoke, context)))
    assert parse_list(plan["list"], "stdin") == smoke
    assert parse_context(plan["context"]) == context


def test_what_is_by_default_is_not_sent() -> None:
    """So an image with an older copy of the module refuses only what it really does not know."""
    plan = plan_of(parse_list(GOOD, "l.toml"), Context())
    assert plan == {"list": {"schema": 1, "name": "l", "checks": [{"name": "a", "kind": "import"}]}, "context": {}}


def test_a_budget_of_memory_by_what_is_needed() -> None:
    cpu, gpu, own = (Check(name="a", kind="k", **more) for more in ({}, {"needs": "gpu"}, {"memory_mb": 7}))
    assert [item.memory_budget_mb for item in (cpu, gpu, own)] == [8192, 32768, 7]
