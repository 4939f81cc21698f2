"""orbit.env.tree: modes and times are fixed, anything touched shows, nothing leads out."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from orbit.env.tree import EPOCH_S, damage, manifest_lines, seal, write_manifest
from orbit.errors import CheckFailed


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "data").write_bytes(b"12345")
    (root / "a" / "tool").write_bytes(b"#!/bin/sh\n")
    (root / "a" / "tool").chmod(0o700)
    (root / "a" / "b" / "data").chmod(0o600)
    (root / "link").symlink_to("a/b/data")
    (root / "a").chmod(0o700)
    counted = seal(root)
    assert (counted.num_files, counted.num_links, counted.num_bytes) == (2, 1, 15)
    write_manifest(root, tmp_path / "manifest")
    return root


def test_modes_and_times(sealed: Path) -> None:
    modes = {
        p.relative_to(sealed).as_posix(): p.lstat().st_mode & 0o777 for p in sealed.rglob("*") if not p.is_symlink()
    }
    assert modes == {"a": 0o755, "a/b": 0o755, "a/b/data": 0o644, "a/tool": 0o755}
    assert {p.lstat().st_mtime for p in [sealed, *sealed.rglob("*")]} == {float(EPOCH_S)}


def test_an_untouched_tree_has_no_damage(sealed: Path) -> None:
    assert damage(sealed, sealed.parent / "manifest") == ""
    assert len(manifest_lines(sealed)) == 5


def same_size(root: Path) -> None:
    (root / "a/b/data").write_bytes(b"54321")


def mode(root: Path) -> None:
    (root / "a/tool").chmod(0o644)


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (same_size, "a/b/data was changed"),
        (mode, "a/tool was changed"),
        (lambda root: (root / "a/b/data").unlink(), "a/b/data is missing"),
        (lambda root: (root / "a/b/more").write_bytes(b""), "a/b/more was added"),
        (lambda root: (root / "link").unlink(), "link is missing"),
        (lambda root: os.utime(root / "a/tool"), "a/tool was changed"),
    ],
)
def test_damage_is_seen_and_named(sealed: Path, harm: Callable[[Path], None], says: str) -> None:
    harm(sealed)
    assert damage(sealed, sealed.parent / "manifest") == says


def test_a_tree_or_a_manifest_that_is_gone_is_damage(sealed: Path, tmp_path: Path) -> None:
    assert damage(sealed, tmp_path / "none") == "none: No such file or directory"
    assert damage(tmp_path / "gone", tmp_path / "manifest").endswith("gone is not there")


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "missing", "a/../../outside"])
def test_links_out_of_the_tree_are_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "outside").write_text("x")
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "link").symlink_to(target)
    with pytest.raises(CheckFailed, match="link: links to"):
        seal(root)


def test_files_shared_with_a_cache_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cached").write_text("x")
    root = tmp_path / "root"
    root.mkdir()
    os.link(tmp_path / "cached", root / "file")
    with pytest.raises(CheckFailed, match="also linked from elsewhere"):
        seal(root)


def test_sockets_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "s"))
        with pytest.raises(CheckFailed, match="neither file, folder nor link"):
            seal(tmp_path)
