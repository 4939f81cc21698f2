"""Smoke lists: what is accepted, what is refused and how it says so."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from orbit.errors import InputError
from orbit.smoke.model import Context, Target, parse_context, parse_list

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
