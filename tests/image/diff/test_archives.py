"""Archives inside images, member by member."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.image.diff.archives import NotAnArchive, ar_items, compare_items, extract, gunzip, gzip_fields, tar_items
from tests.image.diff.material import ar_of, gz, tar_of
from tests.writers.tiny_image import file, tar_bytes


def written(tmp_path: Path, name: str, data: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


OBJECTS = {"a.o": b"one", "a_very_long_name_of_an_object.o": b"two!", "b.o": b"three"}


def test_members_of_a_static_library(tmp_path: Path) -> None:
    path = written(tmp_path, "x.a", ar_of(OBJECTS, time=7))
    items = ar_items(path)
    assert [item.name for item in items] == list(OBJECTS)
    assert {item.time for item in items} == {7}
    assert {item.mode for item in items} == {0o100644}
    for item in items:
        extract(path, item, tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == OBJECTS[item.name]


@pytest.mark.parametrize(
    ("other", "cause"),
    [
        (ar_of(OBJECTS, time=9), "member-date"),
        (ar_of(dict(reversed(OBJECTS.items()))), "member-order"),
    ],
)
def test_circumstances_of_archives(tmp_path: Path, other: bytes, cause: str) -> None:
    left, right = written(tmp_path, "l", ar_of(OBJECTS)), written(tmp_path, "r", other)
    found = compare_items(left, right, ar_items(left), ar_items(right))
    assert (found.causes, found.changed, found.alone) == ((cause,), (), ())


def test_what_differs_in_tars(tmp_path: Path) -> None:
    changed = [file("a", b"one"), file("b", b"TWO", 0o755), file("d", b"new")]
    changed[0][0].uid = 5
    left = written(tmp_path, "l", tar_of(a=b"one", b=b"two", c=b"gone"))
    right = written(tmp_path, "r", tar_bytes(changed))
    found = compare_items(left, right, tar_items(left), tar_items(right))
    assert found.causes == ("member-mode", "member-owner")
    assert [(one.name, two.name) for one, two in found.changed] == [("b", "b")]
    assert [(one.name if one else "", two.name if two else "") for one, two in found.alone] == [("c", ""), ("", "d")]


def test_two_members_of_one_name_are_two(tmp_path: Path) -> None:
    twice = ar_of({"a.o": b"1"}) + ar_of({"a.o": b"2"})[8:]
    other = ar_of({"a.o": b"1"}) + ar_of({"a.o": b"3"})[8:]
    left, right = written(tmp_path, "l", twice), written(tmp_path, "r", other)
    found = compare_items(left, right, ar_items(left), ar_items(right))
    assert len(found.changed) == 1


@pytest.mark.parametrize("data", [b"!<arch>\n" + b"x" * 60, ar_of(OBJECTS)[:-3], b"!<arch>\nx"])
def test_what_is_no_library(tmp_path: Path, data: bytes) -> None:
    path = written(tmp_path, "x", data)
    if len(data) < 20:
        assert ar_items(path) == ()
        return
    with pytest.raises(NotAnArchive):
        ar_items(path)


@given(st.binary(max_size=400))
def test_any_bytes_are_an_archive_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = written(tmp_path_factory.mktemp("x"), "x", b"!<arch>\n" + data)
    for reader in (ar_items, tar_items):
        try:
            items = reader(path)
        except NotAnArchive:
            continue
        assert sum(item.size for item in items) <= len(data) + 8


def test_gzip_headers_and_contents(tmp_path: Path) -> None:
    left = written(tmp_path, "l", gz(b"text" * 100, time=1, name="a"))
    right = written(tmp_path, "r", gz(b"text" * 100, time=2, name="b", level=9))
    changes = {field.name: (field.before, field.after) for field in gzip_fields(left, right)}
    assert changes == {"time": ("1", "2"), "name": ("a", "b"), "level": ("0", "2")}
    gunzip(left, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"text" * 100


@pytest.mark.parametrize("data", [gz(b"x" * 999)[:-9], b"\x1f\x8bnothing", gz(b"x") + b"rest"])
def test_damaged_gzip(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(NotAnArchive):
        gunzip(written(tmp_path, "x", data), tmp_path / "out")
