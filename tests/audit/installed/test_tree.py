"""Layouts, listing, and links followed inside a tree only."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.facts import FileFact, Tree
from orbit.audit.installed.tree import End, find_layout, follow, normalise, read_tree, resolve
from orbit.errors import InputError
from tests.writers.environment import EnvironmentWriter, write_sound_environment


def test_prefix_and_bare_site_packages(tmp_path: Path) -> None:
    env = write_sound_environment(tmp_path / "e")
    assert find_layout(env.prefix, "3.9").site == "lib/python3.12/site-packages"
    bare = find_layout(env.site, "3.9")
    assert (bare.site, bare.python) == ("", (3, 12))


def test_virtual_environment_names_its_interpreter(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    (env.prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert find_layout(env.prefix, "3.12").base_interpreter == "/usr/bin"


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not an installed environment"):
        find_layout(tmp_path, "3.12")
    with pytest.raises(InputError, match="no such folder"):
        find_layout(tmp_path / "absent", "3.12")
    EnvironmentWriter(tmp_path / "e", "3.11")
    (tmp_path / "e/lib/python3.12/site-packages").mkdir(parents=True)
    with pytest.raises(InputError, match="more than one"):
        find_layout(tmp_path / "e", "3.12")


def test_links_are_followed_inside_the_tree_only(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("x")
    for link, target in {
        "to_folder": "a/b",
        "a/up": "../to_folder/file",
        "out": "../elsewhere",
        "absolute": "/etc",
        "dangling": "a/none",
        "circle1": "circle2",
        "circle2": "circle1",
    }.items():
        os.symlink(target, tmp_path / link)
    tree = read_tree(tmp_path)
    assert resolve(tree, "to_folder/file") == "a/b/file"
    assert resolve(tree, "a/up") == "a/b/file"
    for path in ("out", "absolute", "dangling", "circle1", "a/b/none", "../a"):
        assert resolve(tree, path) is None, path
    assert "to_folder/file" not in tree.entries


def test_environment_given_through_a_link_is_judged_by_its_folder(tmp_path: Path) -> None:
    env = write_sound_environment(tmp_path / "e")
    env.prefix.chmod(0o700)
    (tmp_path / "latest").symlink_to("e")
    root = read_tree(tmp_path / "latest").entries[""]
    assert (root.is_folder, root.mode & 0o777) == (True, 0o700)
    assert read_tree(tmp_path / "latest").entries.keys() == read_tree(env.prefix).entries.keys()


def test_normalise() -> None:
    assert normalise("lib/site", "../../bin/x") == "bin/x"
    assert normalise("lib/site", "./pkg//x") == "lib/site/pkg/x"
    assert normalise("lib", "../../x") is None
    assert normalise("lib", "/x") is None


def test_conda_names_one_folder_twice(tmp_path: Path) -> None:
    env = write_sound_environment(tmp_path / "e")
    (env.prefix / "lib/python3.1").symlink_to("python3.12")
    assert find_layout(env.prefix, "3.12").site == "lib/python3.12/site-packages"


def test_where_a_path_leads_and_why_not(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_text("x")
    for link, target in {
        "here": "a/file",
        "gone": "b/c",
        "out": "a/../../x",
        "absolute": "/etc/hosts",
        "inside": f"{tmp_path}/a/file",
        "loop": "loop",
        "through": "absolute/more",
    }.items():
        (tmp_path / link).symlink_to(target)
    tree = read_tree(tmp_path)
    assert follow(tree, "here") == End("here", "a/file")
    assert follow(tree, "gone/d") == End("missing", "b", rest="c/d")
    assert follow(tree, "out") == End("leaves", "../x")
    assert follow(tree, "through") == End("leaves", "/etc/hosts/more", absolute=True)
    assert follow(tree, "inside") == End("here", "a/file", absolute=True)
    assert follow(tree, "loop") == End("circle", "loop")
    assert resolve(tree, "inside") == "a/file"
    rooted = dataclasses.replace(tree, rooted=True, roots=())
    assert follow(rooted, "absolute") == End("missing", "etc", absolute=True, rest="hosts")
    assert follow(rooted, "../../a/file") == End("here", "a/file")


NAMES = st.sampled_from(["a", "b", "c", "..", ".", ""])
TARGETS = st.builds(lambda lead, parts: lead + "/".join(parts), st.sampled_from(["", "/"]), st.lists(NAMES, max_size=5))


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "a/a", "b/b"]), TARGETS), TARGETS, st.booleans())
def test_any_links_end_somewhere(links: dict[str, str], path: str, rooted: bool) -> None:
    fact = FileFact(0o120777, 0, 0, 1, (0, 0, 0, 0))
    entries = {"": fact, "a": fact, "b": fact, "c": fact} | dict.fromkeys(links, fact)
    end = follow(Tree(entries, links, (), (), rooted=rooted), path)
    assert (end.how != "here") or (end.path in entries and end.path not in links)
    assert not (rooted and end.how == "leaves")


def test_files_that_vanish_while_they_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).symlink_to("x")

    def vanish(path: str, *, dir_fd: int) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "readlink", vanish)
    assert read_tree(tmp_path).entries.keys() == {""}


def test_configuration_that_is_a_fifo_does_not_hang(tmp_path: Path) -> None:
    env = write_sound_environment(tmp_path / "e")
    os.mkfifo(env.prefix / "pyvenv.cfg")
    assert find_layout(env.prefix, "3.12").base_interpreter == ""
