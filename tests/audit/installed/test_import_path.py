"""What adds to the import path is read as Python reads it; nothing in these files is followed or executed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orbit.audit.facts import Environment
from orbit.audit.installed.environment import read_environment
from orbit.audit.installed.import_path import (
    absolute,
    editable_root,
    egg_links,
    finder_mapping,
    lines_of,
    local_path,
    look_elsewhere,
    modules_of,
    named_elsewhere,
    path_lines,
    places,
    roots,
    state,
    within,
)
from orbit.core.console import Silent
from tests.audit.support import make_policy
from tests.writers.environment import EnvironmentWriter, write_sound_environment

FINDER = b"import sys\nMAPPING: dict[str, str] = {'tool': '/home/ann/tool/src/tool'}\nNAMESPACES = {}\nPATH = 1\n"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


def read(env: EnvironmentWriter) -> Environment:
    return read_environment(env.prefix, make_policy().profile, Silent())


def add_editable(env: EnvironmentWriter, url: str, files: dict[str, bytes]) -> None:
    folder = "tool-1.0.dist-info"
    info = b'{"url": "%s", "dir_info": {"editable": true}}' % url.encode()
    env.add("tool", {f"{folder}/direct_url.json": info, f"{folder}/top_level.txt": b"tool\nnot-a-name\n", **files})


def test_lines_as_site_reads_them() -> None:
    content = b"\xef\xbb\xbf# comment\n\n  \n../src  \nimport os\nimportant\n"
    assert lines_of(content) == ["../src", "import os", "important"]


def test_code_and_folders_are_told_apart(env: EnvironmentWriter) -> None:
    (env.site / "x.pth").write_text("importlib_path\nimport x\nimport\ty\n")
    (env.prefix / "x.pth").write_text("import elsewhere\n")
    assert [(line.text, line.code) for line in path_lines(read(env))] == [
        ("importlib_path", False), ("import x", True), ("import\ty", True),
    ]  # fmt: skip


def test_editable_install_with_finder_and_path_file(env: EnvironmentWriter) -> None:
    files = {"__editable___tool_1_0_finder.py": FINDER, "_tool.pth": b"/home/ann/tool/src\n"}
    add_editable(env, "file:///home/ann/tool%20one", files)
    facts = read(env)
    (tool,) = [dist for dist in facts.dists if dist.name == "tool"]
    found = {(place.path, place.via.rpartition("/")[2]) for place in places(facts, tool)}
    assert found == {
        ("/home/ann/tool one", "direct_url.json"),
        ("/home/ann/tool/src/tool", "__editable___tool_1_0_finder.py"),
        ("/home/ann/tool/src", "_tool.pth"),
    }
    assert modules_of(facts, tool) == {"tool"}
    assert facts.elsewhere == dict.fromkeys((path for path, _via in found), False)


def test_egg_links(env: EnvironmentWriter) -> None:
    (env.site / "old.egg-link").write_text("/home/ann/old/src\n../")
    assert [(name, place.path) for name, place in egg_links(read(env))] == [("old", "/home/ann/old/src")]


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///srv/a/../b", "/srv/b"),
        ("file://localhost/srv/x", "/srv/x"),
        ("file://host/srv/x", None),
        ("https://example.invalid/x", None),
        ("file:///a%00b", None),
        ("file:relative", None),
        ("file://[", None),
    ],
)
def test_local_paths(url: str, path: str | None) -> None:
    assert local_path(url) == path


@pytest.mark.parametrize(
    "text", ["MAPPING = {'a': b}", "MAPPING = {" + "(" * 5000 + "}", "MAPPING = {'a': 1}", "MAPPING = {1", "\udcff"]
)
def test_finders_that_are_none(text: str) -> None:
    assert finder_mapping(text.encode("utf-8", "surrogateescape")) == {}


@given(st.binary(max_size=300))
@example(b"{}")
def test_any_content_is_survived(content: bytes) -> None:
    assert all(line.strip() for line in lines_of(content))
    mapping = finder_mapping(b"MAPPING = {" + content + b"}\n")
    assert all(isinstance(path, str) and "\0" not in path for path in mapping.values())


def test_only_an_editable_install_has_a_root(env: EnvironmentWriter) -> None:
    add_editable(env, "https://example.invalid/tool", {})
    env.add("plain", {"plain-1.0.dist-info/direct_url.json": b'{"url": "file:///srv/p", "dir_info": {}}'})
    env.add("odd", {"odd-1.0.dist-info/direct_url.json": b'{"url": 1, "dir_info": {"editable": true}}'})
    env.add("good-one", {"good_one-1.0.dist-info/direct_url.json": b"[1]"})
    assert [dist.name for dist in read(env).dists if editable_root(dist) is not None] == []


def test_where_a_path_is(env: EnvironmentWriter, tmp_path: Path) -> None:
    facts = replace(read(env), elsewhere={"/srv/gone": False, "/srv/there": True})
    inside = f"{env.prefix}/{facts.layout.site}/good"
    assert [state(facts, path) for path in (inside, f"{inside}/no", "/srv/gone", "/srv/there", "/srv/unknown")] == [
        "inside", "gone", "gone", "outside", "outside",
    ]  # fmt: skip
    assert within(facts, str(env.prefix)) == ""
    assert within(facts, f"{env.prefix}2/x") is None
    rooted = replace(facts, tree=replace(facts.tree, rooted=True))
    assert (state(rooted, f"/{facts.layout.site}/good"), state(rooted, "/srv/there")) == ("inside", "gone")
    assert absolute(facts, "lib", "../x") == f"{env.prefix}/x"


def test_looking_elsewhere_reads_nothing_and_never_raises(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    paths = [str(tmp_path), str(tmp_path / "dangling"), str(tmp_path / "no"), "/a\0b", "/" + "x" * 5000]
    assert list(look_elsewhere(paths).values()) == [True, True, False, False, False]


def test_so_many_folders_elsewhere_and_no_more(env: EnvironmentWriter) -> None:
    (env.site / "x.pth").write_text("".join(f"/srv/{number}\n" for number in range(900)))
    assert len(named_elsewhere(read(env))) == 200


def test_order_of_the_import_path(env: EnvironmentWriter) -> None:
    (env.site / "x.pth").write_text("more\n/outside\nimport os\nmore\n")
    facts = read(env)
    prefix = facts.layout.prefix
    facts = replace(facts, variables={"PYTHONPATH": f"{prefix}/first:relative::/elsewhere"})
    assert roots(facts) == ["first", facts.layout.site, f"{facts.layout.site}/more"]
