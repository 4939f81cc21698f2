"""Layouts, listing, and links followed inside a tree only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.audit.tree import find_layout, normalise, read_tree, resolve
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
