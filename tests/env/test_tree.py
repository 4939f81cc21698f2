"""orbit.env.tree: modes and times are fixed, anything touched shows, nothing leads out."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from orbit.env.tree import EPOCH_S, damage, listing, manifest_lines, read_lines, seal, sync, touched, write_lines
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
    assert (counted.num_files, counted.links, counted.num_bytes) == (2, ("link",), 15)
    assert list(counted.lines) == manifest_lines(root)
    write_lines(tmp_path / "manifest", counted.lines)
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


def test_a_file_shared_with_another_sealed_tree_is_only_looked_at(sealed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    os.link(sealed / "a/b/data", other / "data")
    (other / "new").write_bytes(b"1")
    with pytest.raises(CheckFailed, match="data: also linked from elsewhere"):
        seal(other)
    line = next(line for line in manifest_lines(sealed) if "b/data" in line)
    counted = seal(other, {"data": line.partition("\t")[2]})
    assert (counted.num_files, counted.num_bytes, counted.own, counted.touched) == (2, 6, {"new": 1}, ())
    assert list(counted.lines) == manifest_lines(other)
    assert counted.lines[0] == line.removeprefix("a/b/")


def test_a_shared_file_that_is_not_as_it_was_or_not_there_is_named(sealed: Path) -> None:
    lines = dict(line.split("\t", 1) for line in manifest_lines(sealed))
    os.utime(sealed / "a/tool")
    assert touched(sealed, lines, ["a/b/data", "a/tool"]) == "a/tool"
    assert touched(sealed, lines, ["a/b/data", "link"]) == ""
    assert touched(sealed, lines, ["a/gone"]) == "a/gone"
    shared = {path: lines[path] for path in ("a/tool", "a/b/data")} | {"a/gone": lines["a/tool"]}
    assert seal(sealed, shared).touched == ("a/gone", "a/tool")


def test_a_name_that_would_break_a_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "two\nlines").write_bytes(b"")
    with pytest.raises(CheckFailed, match="line break"):
        seal(tmp_path)


def test_names_that_are_no_text_survive(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\x85 \xe2\x80\xa8")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / name).write_bytes(b"")
    write_lines(tmp_path / "manifest", seal(tmp_path / "root").lines)
    assert damage(tmp_path / "root", tmp_path / "manifest") == ""
    assert [line.partition("\t")[0] for line in read_lines(tmp_path / "manifest")] == [name]
    assert listing(tmp_path) == ({f"root/{name}", "manifest"}, {"root"})


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


def test_sync_reaches_the_disk_or_says_why_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    sync(tmp_path)
    with pytest.raises(OSError, match="No such file"):
        sync(tmp_path / "nothing")
    with pytest.raises(OSError, match="Not a directory"):
        sync(tmp_path / "file")
