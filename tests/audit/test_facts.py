"""Facts: kinds of directory entries, paths as people know them, names that are not text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.audit.facts import Environment, FileFact, Layout, Tree, join, printable
from orbit.audit.installed.tree import read_tree


def test_kinds_are_told_apart_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    kinds = {
        path: (fact.is_file, fact.is_folder, fact.is_link) for path, fact in read_tree(tmp_path).entries.items() if path
    }
    assert kinds == {
        "folder": (False, True, False),
        "file": (True, False, False),
        "link": (False, False, True),
        "fifo": (False, False, False),
    }


@pytest.mark.parametrize(
    ("site", "path", "shown"),
    [
        ("lib/python3.12/site-packages", "lib/python3.12/site-packages/torch/lib/x.so", "torch/lib/x.so"),
        ("lib/python3.12/site-packages", "lib/python3.12/site-packages2/x.so", "lib/python3.12/site-packages2/x.so"),
        ("lib/python3.12/site-packages", "bin/python3.12", "bin/python3.12"),
        ("", "torch/lib/x.so", "torch/lib/x.so"),
    ],
)
def test_paths_are_shown_relative_to_site_packages(site: str, path: str, shown: str) -> None:
    env = Environment(
        layout=Layout(Path("/opt/orbit"), site, (3, 12), ""),
        tree=Tree({"": FileFact(0o40755, 0, 0, 0, (0, 0, 0, 0))}, {}, (), ()),
        dists=(),
        objects=(),
        exports={},
        damaged={},
        num_remembered=0,
        digests={},
        owners={},
    )
    assert env.in_site(path) == shown


@pytest.mark.parametrize(
    ("raw", "shown"), [(b"plain", "plain"), ("\u00e9".encode(), "\u00e9"), (b"a\xff.so", "a\\udcff.so"), (b"", "")]
)
def test_printable_names_can_be_encoded(raw: bytes, shown: str) -> None:
    text = printable(os.fsdecode(raw))
    assert text == shown
    assert text.encode().decode() == text


def test_join_leaves_out_what_is_empty() -> None:
    assert join("", "a", "", "b/c") == "a/b/c"
    assert join("", "") == ""
