"""What differs, told like a diff: the many first, then who is different."""

from __future__ import annotations

from typing import Any

import pytest

from orbit.launch.fingerprint.compare import differences, doubles, groups, remarks
from orbit.launch.fingerprint.model import must_agree
from tests.launch.fingerprint.prints import library, sound


def test_nodes_that_agree_differ_in_nothing() -> None:
    assert differences([]) == ()
    assert differences([("a", sound())]) == ()
    assert differences([("a", sound()), ("b", sound(driver="570.1", devices=()))]) == ()


def test_one_of_a_thousand_is_found_and_the_rest_is_one_line() -> None:
    nodes = [(f"gpu-{number:04}", sound()) for number in range(1000)]
    odd = (library("libcudnn.so.9"), library("libnccl.so.2", "b" * 64), library("libcuda.so.1", inside=False))
    nodes[617] = ("gpu-0617", sound(libraries=odd, versions={"nccl": "2.28.1", "torch": "2.9.1"}))
    assert differences(nodes) == (
        "--- 999 nodes: gpu-[0000-0616,0618-0999]",
        "+++ 1 node: gpu-0617",
        "  libraries",
        f"- libnccl.so.2 sha256:{'a' * 16}",
        f"+ libnccl.so.2 sha256:{'b' * 16}",
        "  versions",
        "- nccl 2.27.3",
        "+ nccl 2.28.1",
    )


@pytest.mark.parametrize("field", list(must_agree(sound())))
def test_every_field_that_must_agree_shows(field: str) -> None:
    other: dict[str, Any] = {"libraries": (library("x.so"),), "versions": {}}
    lines = differences([("a", sound()), ("b", sound(**{field: other.get(field, "other")}))])
    assert f"  {field}" in lines
    assert any(text.startswith("- ") for text in lines)


def test_the_largest_group_is_what_others_differ_from_and_the_first_of_equals() -> None:
    found = groups([("a", sound(lock="x")), ("b", sound()), ("c", sound())])
    assert [group.hosts for group in found] == [("b", "c"), ("a",)]
    found = groups([("a", sound(lock="x")), ("b", sound())])
    assert [group.hosts for group in found] == [("a",), ("b",)]
    lines = differences([("a", sound()), ("b", sound(lock="x")), ("c", sound(glibc="2.31")), ("d", sound())])
    assert [text for text in lines if text[:3] in ("---", "+++")] == [
        "--- 2 nodes: a, d", "+++ 1 node: b", "--- 2 nodes: a, d", "+++ 1 node: c",
    ]  # fmt: skip


def test_two_nodes_of_one_name_are_two() -> None:
    assert "--- 2 nodes: a" in differences([("a", sound()), ("a", sound()), ("a", sound(lock="x"))])


def test_a_value_that_is_missing_is_nothing() -> None:
    lines = differences([("a", sound()), ("b", sound(image=""))])
    assert lines[2:] == ("  image", "- sha256:" + "1" * 64, "+ nothing")


def test_a_library_on_one_side_alone_has_one_line() -> None:
    more = (*sound().libraries, library("libextra.so.1"))
    lines = differences([("a", sound()), ("b", sound(libraries=more))])
    assert lines[2:] == ("  libraries", f"+ libextra.so.1 sha256:{'a' * 16}")


def test_one_that_did_not_load_the_stack_is_told_as_such() -> None:
    lines = differences([("a", sound()), ("b", sound(libraries=(), versions={}))])
    assert "- 3 mapped; the other was taken without --loaded" in lines


def test_many_libraries_are_counted() -> None:
    many = tuple(library(f"lib{number:03}.so") for number in range(100))
    lines = differences([("a", sound(libraries=(library("x.so"),))), ("b", sound(libraries=many))])
    assert lines[-1] == "  and 61 more lines"


def test_a_library_that_cannot_be_read_any_more_is_told() -> None:
    gone = (library("libnccl.so.2", ""),)
    lines = differences([("a", sound(libraries=(library("libnccl.so.2"),))), ("b", sound(libraries=gone))])
    assert lines[-1] == "+ libnccl.so.2 (cannot be read any more)"


def test_driver_and_devices_may_differ_and_are_remarked() -> None:
    assert remarks([("a", sound()), ("b", sound())]) == ()
    lines = remarks([("n1", sound()), ("n2", sound(driver="")), ("n3", sound())])
    assert lines == ("driver: 580.65.06, CUDA 13.0 on n[1,3]", "driver: nothing on n2")


def test_a_library_that_is_mapped_twice_is_told_with_both_places() -> None:
    twice = (library("libcudnn.so.9"), library("libcudnn.so.9", "b" * 64, inside=False, at="/usr/lib"))
    assert doubles(sound(libraries=twice)) == (
        "libcudnn.so.9: /opt/orbit/lib/libcudnn.so.9 and /usr/lib/libcudnn.so.9",
    )
    assert doubles(sound()) == ()
