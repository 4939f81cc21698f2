"""Requirements are evaluated for the target, with the extras that are asked for, and never raise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.facts import Distribution, Environment
from orbit.audit.installed.environment import read_environment
from orbit.audit.models.requirements import (
    Unmet,
    Unreadable,
    full_version,
    groups,
    marker_environment,
    parse,
    python_of,
    unmet,
    versions_of,
)
from orbit.core.console import Silent
from tests.audit.support import make_policy
from tests.writers.environment import write_sound_environment

MARKERS = {
    "python_version": "3.12", "python_full_version": "3.12.1", "sys_platform": "linux", "platform_machine": "x86_64",
    "platform_system": "Linux", "os_name": "posix", "implementation_name": "cpython",
}  # fmt: skip


def dist(name: str, *requires: str, version: str = "1.0", site: str = "") -> Distribution:
    return Distribution(name, version, f"{name}.dist-info", (), (), (), "", site=site, requires=requires)


def judge(*dists: Distribution, asked: tuple[tuple[str, str], ...] = ()) -> list[Unmet | Unreadable]:
    return list(unmet(dists, MARKERS, present=versions_of(dists), asked=asked))


def names(*dists: Distribution, asked: tuple[tuple[str, str], ...] = ()) -> list[str]:
    return [item.wanted for item in judge(*dists, asked=asked) if isinstance(item, Unmet)]


def test_missing_and_other_versions() -> None:
    found = judge(dist("a", "b>=2", "gone", "c ; python_version < '3'"), dist("b"))
    assert found == [Unmet("b", ">=2", ("1.0",), "a", "1.0", ""), Unmet("gone", "", (), "a", "1.0", "")]


@pytest.mark.parametrize("version", ["2.0", "2.0+cu130", "2.0rc1", "2.0.dev3"])
def test_local_and_pre_releases_count(version: str) -> None:
    assert names(dist("a", "b>=1.5"), dist("b", version=version)) == []


def test_any_spelling_of_a_name_is_found() -> None:
    assert names(dist("a", "My_Dist[fast]"), dist("my-dist")) == []


def test_extras_count_only_when_somebody_asks() -> None:
    lazy = dist("b", "c ; extra == 'fast'", "d ; extra == 'slow' and python_version >= '3'")
    assert names(dist("a", "b"), lazy) == []
    assert names(dist("a", "b[fast]"), lazy) == ["c"]
    assert names(dist("a", "b[SLOW]"), lazy) == ["d"]
    assert names(lazy, asked=(("b", "fast"),)) == ["c"]


def test_extras_of_extras_are_followed_and_circles_end() -> None:
    first = dist("a", "a[more] ; extra == 'all'", "b[x] ; extra == 'more'")
    second = dist("b", "a[all] ; extra == 'x'", "gone ; extra == 'x'")
    assert names(dist("r", "a[all]"), first, second) == ["gone"]


def test_a_requirement_that_holds_anyway_is_told_once() -> None:
    assert names(dist("r", "a[x]"), dist("a", "gone ; extra == 'x' or python_version >= '3'")) == ["gone"]


def test_requirements_by_url_ask_for_presence_only() -> None:
    assert names(dist("a", "b @ https://example.invalid/b-9.whl"), dist("b")) == []
    assert names(dist("a", "b @ https://example.invalid/b-9.whl")) == ["b"]


def test_lines_that_are_no_requirements_are_told_apart() -> None:
    assert judge(dist("a", "b (no", "")) == [Unreadable("a", "b (no"), Unreadable("a", "")]


def test_versions_that_cannot_be_compared_say_nothing() -> None:
    assert names(dist("a", "b==2"), dist("b", version="of yesterday")) == []


@given(st.text(max_size=60))
def test_any_line_is_survived(line: str) -> None:
    found = judge(dist("a", line), dist("b"))
    assert [item for item in found if isinstance(item, Unreadable)] == ([] if parse(line) else [Unreadable("a", line)])


@given(st.sampled_from(["==", ">=", "~=", "!=", "==="]), st.text("0123456789.ab*+", max_size=8))
def test_any_specifier_is_survived(operator: str, version: str) -> None:
    found = judge(dist("a", f"b{operator}{version}", f"b ; python_version {operator} '{version}'"), dist("b"))
    assert {item.wanted for item in found if isinstance(item, Unmet)} <= {"b"}


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    return read_environment(write_sound_environment(tmp_path / "e").prefix, make_policy().profile, Silent())


def test_patch_release_where_the_target_says_it_else_the_last(env: Environment) -> None:
    site = env.layout.site
    assert full_version(env, site, (3, 12)) == "3.12.99"
    venv = replace(env, texts={"pyvenv.cfg": b"home = /usr/bin\nversion_info = 3.12.4\n"})
    assert full_version(venv, site, (3, 12)) == "3.12.4"
    conda = replace(env, texts={"conda-meta/python-3.12.7-h5148396_0.json": b"{}"})
    assert full_version(conda, site, (3, 12)) == "3.12.7"
    assert full_version(conda, site, (3, 11)) == "3.11.99"


def test_markers_are_of_the_target(env: Environment) -> None:
    markers = marker_environment(env, groups(env)[0])
    assert (markers["python_version"], markers["platform_machine"], markers["sys_platform"]) == (
        "3.12", "x86_64", "linux",
    )  # fmt: skip


def with_sites(env: Environment, *sites: str, texts: dict[str, bytes] | None = None) -> Environment:
    layout = replace(env.layout, site=sites[0], others=sites[1:])
    dists = tuple(dist(f"d{number}", site=site) for number, site in enumerate(sites))
    return replace(env, layout=layout, dists=dists, texts=texts or {})


def test_interpreters_see_their_own_folders(env: Environment) -> None:
    venv, local, distro, old = (
        "opt/venv/lib/python3.12/site-packages",
        "usr/local/lib/python3.12/dist-packages",
        "usr/lib/python3/dist-packages",
        "usr/lib/python3.11/site-packages",
    )
    closed = with_sites(env, venv, local, distro, old, texts={"opt/venv/pyvenv.cfg": b"home = /usr/bin\n"})
    seen = {group.site: {one.site for one in group.beside} for group in groups(closed)}
    assert seen == {venv: set(), local: {distro}, distro: {local, old}, old: {distro}}
    config = b"include-system-site-packages = true\n"
    opened = with_sites(env, venv, local, distro, old, texts={"opt/venv/pyvenv.cfg": config})
    assert {one.site for one in groups(opened)[0].beside} == {local, distro}
    assert [python_of(opened.layout, site) for site in (local, distro, old)] == [(3, 12), None, (3, 11)]


ENDLESS = "9" * 5000
"""More digits than Python makes an integer of: a ValueError that is no InvalidVersion."""


def test_numbers_without_end_are_nobody_s_requirement() -> None:
    assert names(dist("a", f"b>={ENDLESS}"), dist("b")) == []
    assert names(dist("a", "b>=1"), dist("b", version=ENDLESS)) == []
    assert names(dist("a", f"b ; python_version < '{ENDLESS}'")) == []


def test_markers_about_nothing_are_nobody_s_requirement() -> None:
    """Two texts compared: a KeyError in packaging 26. Found by fuzzing."""
    assert names(dist("a", "b ; '' >= ')3.1'", "c ; python_version ~= 'x'")) == []
