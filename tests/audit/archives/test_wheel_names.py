"""File names of wheels, and which wheels an installer takes together."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.archives.wheel_names import installable, platforms, pythons_of, read_name, read_tags, wheel_sets


def sets(*names: str) -> list[list[str]]:
    found = wheel_sets([Path(name) for name in names], (3, 12), "x86_64", 36)
    assert not found[0].reason
    assert all(item.reason for item in found[1:])
    return [[path.name for path in item.paths] for item in found]


def test_a_name() -> None:
    name = read_name("Foo_Bar-1.0+cu13-2-cp39.cp310-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")
    assert (name.name, name.version, name.problem) == ("foo-bar", "1.0+cu13", "")
    assert len(name.tags) == 4
    assert pythons_of(name) == {(3, 9), (3, 10)}
    assert pythons_of(read_name("a-1-py3-none-any.whl")) == frozenset()


@pytest.mark.parametrize(
    "file",
    ["x.whl", "a-1.whl", "a-one-py3-none-any.whl", "a-1-py3-none.whl", "a-1-2-3-py3-none-any.whl",
     "a-1-" + ".".join(["py3"] * 99) + "-" + ".".join(["none"] * 99) + "-any.whl"],
)  # fmt: skip
def test_names_that_installers_refuse(file: str) -> None:
    name = read_name(file)
    assert name.problem
    assert not name.tags


def test_compressed_tags_are_taken_apart() -> None:
    assert read_tags(["py2.py3-none-any", "nonsense"]) == {"py2-none-any", "py3-none-any", "nonsense"}
    bomb = ".".join(["a"] * 5000) + "-none-any"
    assert read_tags([bomb]) == {bomb}


def test_platforms_from_the_newest_glibc_down() -> None:
    names = platforms("x86_64", 18)
    assert names[:3] == ("manylinux_2_18_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
    assert names[-3:] == ("manylinux_2_5_x86_64", "manylinux1_x86_64", "linux_x86_64")
    accepted = set(map(str, installable((3, 12), "x86_64", 36)))
    assert {"cp312-cp312-linux_x86_64", "cp38-abi3-manylinux2014_x86_64", "py3-none-any"} <= accepted
    assert not {"cp313-abi3-linux_x86_64", "cp312-cp312-manylinux_2_37_x86_64", "cp312-cp312-linux_aarch64"} & accepted


def test_of_several_versions_the_newest_that_fits_is_taken() -> None:
    assert sets("a-1.9-py3-none-any.whl", "a-1.10-py3-none-any.whl", "b-1-py3-none-any.whl") == [
        ["a-1.10-py3-none-any.whl", "b-1-py3-none-any.whl"],
        ["a-1.9-py3-none-any.whl"],
    ]


def test_a_newer_version_for_another_system_does_not_count() -> None:
    fits, newer = "a-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", "a-2.0-cp312-cp312-manylinux_2_39_x86_64.whl"
    assert sets(newer, fits) == [[fits], [newer]]
    other = "a-2.0-cp310-cp310-manylinux_2_28_x86_64.whl"
    assert sets(newer, other)[0] == [newer]


def test_of_one_version_the_most_specific_wheel_is_taken() -> None:
    names = [
        "a-1-py3-none-any.whl",
        "a-1-cp312-cp312-manylinux_2_28_x86_64.whl",
        "a-1-cp39-abi3-manylinux_2_28_x86_64.whl",
    ]
    assert sets(*names)[0] == [names[1]]


def test_one_project_under_two_spellings() -> None:
    assert len(sets("foo_bar-1-py3-none-any.whl", "Foo.Bar-2-py3-none-any.whl")) == 2


def test_a_file_with_an_impossible_name_is_kept() -> None:
    assert sets("junk.whl", "a-1-py3-none-any.whl") == [["a-1-py3-none-any.whl", "junk.whl"]]
