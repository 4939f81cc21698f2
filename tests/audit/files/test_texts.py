"""Which files are read as text, and that nothing but a regular file of bounded length ever is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.audit.files.texts import MAX_BYTES, WANTED, is_wanted, read_text, read_texts
from orbit.audit.installed.tree import read_tree

SITE = "lib/python3.12/site-packages"
PATHS = [
    f"{SITE}/a-1.dist-info/top_level.txt",
    f"{SITE}/a-1.dist-info/entry_points.txt",
    f"{SITE}/a.pth",
    f"opt/x/{SITE}/a.egg-link",
    f"{SITE}/__editable___a_finder.py",
    "pyvenv.cfg",
    "opt/venv/pyvenv.cfg",
    "share/orbit/environment.json",
    "opt/orbit/share/orbit/environment.json",
    "conda-meta/python-3.12.json",
    "etc/ld.so.cache",
    "etc/ld.so.conf",
    "etc/ld.so.conf.d/zz-cuda.conf",
    "etc/ld.so.preload",
    "etc/passwd",
    "etc/group",
    "etc/environment",
    "etc/os-release",
    "usr/lib/os-release",
    "usr/local/cuda-13.0/version.json",
]


@pytest.mark.parametrize("path", PATHS)
def test_wanted(path: str) -> None:
    assert is_wanted(path)


@pytest.mark.parametrize(
    "path",
    ["a/b.py", "passwd", f"{SITE}/a/version.json", f"{SITE}/a/x.pth", "conda-meta/history", "share/orbit/a/b.json"],
)
def test_not_wanted(path: str) -> None:
    assert not is_wanted(path)
    assert WANTED.search(f"/{path}") is None


def test_only_regular_files_of_bounded_length_are_read(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_bytes(b"nobody")
    os.mkfifo(tmp_path / "etc/group")
    (tmp_path / "etc/ld.so.conf").symlink_to("passwd")
    with open(tmp_path / "etc/environment", "wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert read_texts(tmp_path, read_tree(tmp_path)) == {"etc/passwd": b"nobody"}
    assert [read_text(tmp_path, path) for path in ("etc/group", "etc", "no", "a\0b", "etc/environment")] == [None] * 5
