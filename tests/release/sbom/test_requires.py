"""Requirements resolved within one environment."""

from __future__ import annotations

from orbit.audit.facts import Distribution
from orbit.release.sbom.requires import dependencies, marker_environment


def dist(name: str, *requires: str, extras: tuple[str, ...] = ()) -> Distribution:
    return Distribution(
        name=name, version="1", folder=name, rows=(), outside=(), tags=(), problem="", requires=requires, extras=extras
    )


def test_markers_extras_and_absent_ones() -> None:
    dists = [
        dist("a", "B[fast] >= 1; python_version >= '3.12'", "c; sys_platform == 'win32'", "absent"),
        dist("b", "c; extra == 'fast'", "d; extra == 'slow'"),
        dist("c", "a"),
        dist("d"),
    ]
    assert dependencies(dists, "3.12.1", frozenset()) == {"a": ("b",), "b": ("c",), "c": ("a",)}
    assert dependencies(dists, "3.11.9", frozenset()) == {"c": ("a",)}


def test_an_extra_may_ask_for_another_extra_of_itself() -> None:
    dists = [dist("a", "a[x]; extra == 'all'", "b; extra == 'x'", extras=("all", "x")), dist("b"), dist("c", "a[all]")]
    assert dependencies(dists, "3.12.1", frozenset()) == {"a": ("b",), "c": ("a",)}


def test_all_extras_of_a_root_count() -> None:
    dists = [dist("orbit", "b; extra == 'stack'", extras=("stack",)), dist("b")]
    assert dependencies(dists, "3.12.1", frozenset({"orbit"})) == {"orbit": ("b",)}
    assert dependencies(dists, "3.12.1", frozenset()) == {}


def test_what_cannot_be_read_is_no_dependency() -> None:
    dists = [dist("a", "((", "b; no_such_name == '1'", "b; python_version >= 'x y'", "b" + " " * 3000, ""), dist("b")]
    assert dependencies(dists, "3.12.1", frozenset()) == {}


def test_nothing_of_this_machine_is_in_the_environment() -> None:
    assert marker_environment("3.12.1")["python_version"] == "3.12"
    assert marker_environment("3.12.1")["platform_release"] == marker_environment("3.12.1")["platform_version"] == ""
