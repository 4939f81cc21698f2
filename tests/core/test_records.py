"""Typed TOML and JSON: what is accepted, and how a refusal names its place."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.core.records import (
    Record,
    canonical,
    compact_json,
    content_key,
    convert,
    dump_json,
    load_json,
    load_toml,
    parse_toml,
)
from orbit.errors import ExitCode, InputError


class Part(Record, frozen=True, kw_only=True):
    name: str
    sizes: tuple[int, ...] = ()


class Whole(Record, frozen=True, kw_only=True):
    schema: int
    parts: tuple[Part, ...]
    note: str = ""


GOOD = 'schema = 1\n[[parts]]\nname = "a"\nsizes = [1, 2]\n'

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_toml_becomes_frozen_records(tmp_path: Path) -> None:
    whole = load_toml(write(tmp_path / "a.toml", GOOD), Whole)
    assert whole == Whole(schema=1, parts=(Part(name="a", sizes=(1, 2)),))
    with pytest.raises(AttributeError):
        whole.schema = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('schema = 1\nparts = []\nnoet = "x"\n', "noet"),
        ('schema = 1\n[[parts]]\nname = "a"\nsize = [1]\n', "size"),
        ('schema = 1\n[[parts]]\nname = "a"\nsizes = ["1"]\n', "$.parts[0].sizes[0]"),
        ("parts = []\n", "schema"),
        ('schema = "1"\nparts = []\n', "$.schema"),
        ("schema = = 1\n", "line 1"),
    ],
)
def test_bad_toml_names_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path / "bad.toml", text)
    with pytest.raises(InputError) as caught:
        load_toml(path, Whole)
    assert str(path) in caught.value.what
    assert said in caught.value.what
    assert caught.value.fix
    assert caught.value.code is ExitCode.USAGE


def test_toml_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_toml(tmp_path / "absent.toml", Whole)
    (tmp_path / "latin.toml").write_bytes(b'schema = 1\nnote = "\xe9"\nparts = []\n')
    with pytest.raises(InputError, match=r"latin\.toml: not valid TOML"):
        load_toml(tmp_path / "latin.toml", Whole)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b'{"schema": 1, "parts": []', b'{"schema": 1, "parts": [], "more": 0}', b"[]", b'{"schema"', b"\xff"],
)
def test_bad_json_names_the_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        load_json(path, Whole)
    assert str(path) in caught.value.what
    assert caught.value.fix


@given(data=st.binary(max_size=60))
def test_no_bytes_make_load_json_raise_anything_else(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzz-{os.getpid()}.json"
    path.write_bytes(data)
    with contextlib.suppress(InputError):
        assert isinstance(load_json(path, Whole), Whole)


def test_json_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_json(tmp_path / "absent.json", Whole)


def test_dump_and_load_are_inverse(tmp_path: Path) -> None:
    whole = Whole(schema=1, parts=(Part(name="z"), Part(name="a", sizes=(3,))), note="n")
    dump_json(tmp_path / "deep" / "w.json", whole)
    assert load_json(tmp_path / "deep" / "w.json", Whole) == whole
    text = (tmp_path / "deep" / "w.json").read_text()
    assert text.endswith("}\n")
    assert text.splitlines()[1].startswith("  ")


def test_convert_says_where() -> None:
    with pytest.raises(InputError, match=r"^the options: .*`\$\.name`"):
        convert({"name": 1}, Part, "the options")


@given(value=json_values)
def test_the_content_key_depends_on_the_value_alone(value: Any) -> None:
    def reversed_keys(thing: Any) -> Any:
        if isinstance(thing, dict):
            return {key: reversed_keys(thing[key]) for key in reversed(list(thing))}
        return [reversed_keys(item) for item in thing] if isinstance(thing, list) else thing

    assert canonical(value) == canonical(reversed_keys(value))
    assert content_key(value) == content_key(reversed_keys(value))


def test_content_keys_differ_when_values_differ() -> None:
    values: tuple[Any, ...] = ({"a": 1}, {"a": 2}, {"b": 1}, {"a": "1"}, {"a": [1]}, {}, [], None)
    keys = {content_key(value) for value in values}
    assert len(keys) == 8
    assert content_key({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "{a=" * 5000, "a = " + "9" * 5000, "a = 1979-99-99"])
def test_toml_that_breaks_parsers_is_refused(text: str, tmp_path: Path) -> None:
    """Deep nesting, and numbers with more digits than Python turns into an integer."""
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(InputError, match="not valid TOML"):
        load_toml(tmp_path / "a.toml", dict)
    with pytest.raises(InputError, match="the hint"):
        parse_toml(text.encode(), tmp_path, fix="the hint")


def test_json_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a":' * 50_000)
    with pytest.raises(InputError, match="recursion"):
        load_json(tmp_path / "a.json", dict[str, object])


def test_json_for_programs_keeps_the_order_of_the_record() -> None:
    assert compact_json(Ordered(zebra=1, apple=("x",))) == b'{"zebra":1,"apple":["x"]}'
    assert compact_json({"b": 1, "a": 2}) == b'{"a":2,"b":1}'


class Ordered(Record, frozen=True, kw_only=True):
    zebra: int
    apple: tuple[str, ...] = ()


def test_a_key_survives_json() -> None:
    value = {"b": Ordered(zebra=1, apple=("x", "y")), "a": (1, 2)}
    assert content_key(msgspec.json.decode(canonical(value))) == content_key(value)
    assert content_key({"b": {"apple": ["x", "y"], "zebra": 1}, "a": [1, 2]}) == content_key(value)
