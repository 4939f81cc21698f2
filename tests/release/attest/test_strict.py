"""JSON and base64 of others: one meaning for every reader, or a refusal."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.release.attest.strict import decode_base64, strict_json
from tests.release.attest.world import attempt

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_what_is_json_comes_back(value: Any) -> None:
    assert strict_json(msgspec.json.encode(value), "x") == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_sentence(data: bytes) -> None:
    found = attempt(lambda: strict_json(data, "file.json"))
    if isinstance(found, InputError):
        assert found.what.startswith("file.json: not JSON that can be relied on: ")
        assert found.fix
    else:
        assert json.loads(data.decode()) == found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ('{"x": [{"k": 1, "l": 2, "k": 1}]}', "'k' stands twice"),
        ('{"\\u0061": 1, "a": 2}', "'a' stands twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e999}', ""),
        ('{"a": "\\ud800"}', ""),
        ('{"a": 1} {"b": 2}', "Extra data"),
        ('{"a": 1', ""),
        ("", ""),
        ("\ufeff{}", ""),
        ("[" * 100_000, ""),
        ("1" * 10_000, ""),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=r"^f: not JSON that can be relied on: ") as refused:
        strict_json(text.encode(), "f")
    assert says in refused.value.what
    assert len(refused.value.what) < 400


def test_other_encodings_are_refused() -> None:
    for encoding in ("utf-16", "utf-32", "latin-1"):
        with pytest.raises(InputError):
            strict_json('{"a": "\xe9"}'.encode(encoding), "f")


@given(st.binary(max_size=100))
def test_base64_of_both_alphabets_is_read(data: bytes) -> None:
    assert decode_base64(base64.b64encode(data).decode(), "x") == data
    assert decode_base64(base64.urlsafe_b64encode(data).decode(), "x") == data


@given(st.text(max_size=40))
def test_a_text_is_base64_in_one_spelling_only(text: str) -> None:
    try:
        data = decode_base64(text, "x")
    except InputError:
        return
    assert text in (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode())


@pytest.mark.parametrize("text", ["YQ", "YQ=", "YR==", "Y Q==", "YQ==\n", "-_+/", "=", "\xe9", "YQ==YQ=="])
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^sig: not base64"):
        decode_base64(text, "sig")
