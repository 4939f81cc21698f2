"""Unpacking an image without an engine: the result, and every way a layer could try to get out."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import InputError
from orbit.image.damage import DamagedImage
from orbit.image.oci import read_layout
from orbit.image.rootfs import LAYER_KIND, ROOT_KIND, RootTree, unpack_image
from tests.writers.tiny_image import Members, file, folder, other, symlink, write_image


def unpack(tmp_path: Path, store: Store, *layers: Members, diff_ids: Sequence[str] = ()) -> RootTree:
    number = len(list(tmp_path.glob("layout*")))
    layout = write_image(tmp_path / f"layout{number}", layers, diff_ids=diff_ids)
    return unpack_image(read_layout(layout), store, progress=Silent())


def test_files_links_and_modes(tmp_path: Path, store: Store) -> None:
    tree = unpack(
        tmp_path,
        store,
        [
            folder("opt", 0o755),
            file("opt/tool", b"#!", 0o755),
            file("./opt/data", b"data", 0o644),
            symlink("bin", "opt"),
            symlink("opt/absolute", "/opt/tool"),
            other("opt/again", tarfile.LNKTYPE, "opt/data"),
            file("deep/er/file", b"x"),
        ],
    )
    root = tree.path
    assert (root / "bin" / "data").read_bytes() == b"data"
    assert stat.S_IMODE((root / "opt/tool").stat().st_mode) == 0o755
    assert os.readlink(root / "opt/absolute") == "/opt/tool"
    assert (root / "opt/again").stat().st_ino == (root / "opt/data").stat().st_ino
    assert (root / "deep/er/file").read_bytes() == b"x"
    assert tree.closed == ()


def test_upper_layers_replace_and_whiteouts_remove(tmp_path: Path, store: Store) -> None:
    tree = unpack(
        tmp_path,
        store,
        [
            file("a/one", b"1"),
            file("a/two", b"2"),
            file("b/gone", b"3"),
            file("c", b"file"),
            file("d/x", b"4"),
            symlink("e", "a"),
        ],
        [
            file("a/one", b"upper"),
            file("a/.wh.two"),
            file("b/.wh..wh..opq"),
            file("b/new", b"5"),
            folder("c"),
            file(".wh.d"),
            folder("e"),
            file("e/own", b"6"),
        ],
    )
    root = tree.path
    assert (root / "a/one").read_bytes() == b"upper"
    assert not (root / "a/two").exists()
    assert [path.name for path in (root / "b").iterdir()] == ["new"]
    assert (root / "c").is_dir()
    assert not (root / "d").exists()
    assert not (root / "e").is_symlink()
    assert not (root / "a/own").exists()
    assert not list(root.rglob(".wh.*"))


def test_a_whiteout_below_a_link_reaches_nothing(tmp_path: Path, store: Store) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("mine")
    unpack(tmp_path, store, [symlink("way", str(outside))], [file("way/.wh.keep"), file("other", b"x")])
    assert (outside / "keep").read_text() == "mine"


def test_a_member_below_a_lower_layers_link_stays_inside(tmp_path: Path, store: Store) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    tree = unpack(tmp_path, store, [symlink("way", str(outside))], [file("way/in", b"x")])
    assert list(outside.iterdir()) == []
    assert (tree.path / "way/in").read_bytes() == b"x"


def test_shared_layers_are_unpacked_once_and_old_ones_go(tmp_path: Path, store: Store) -> None:
    base = [file("base", b"b")]
    first = unpack(tmp_path, store, base, [file("top", b"1")])
    again = unpack(tmp_path, store, base, [file("top", b"1")])
    assert first.path == again.path
    os.utime(first.path.parent, (1, 1))
    second = unpack(tmp_path, store, base, [file("top", b"2")])
    assert (second.path / "base").stat().st_ino == (first.path / "base").stat().st_ino
    third = unpack(tmp_path, store, base, [file("top", b"3")])
    kept = {path.name for path in (store.root / "entries" / ROOT_KIND).iterdir()}
    assert kept == {second.path.parent.name, third.path.parent.name}
    assert len(list((store.root / "entries" / LAYER_KIND).iterdir())) == 3


def test_a_refused_layer_leaves_nothing_in_the_store(tmp_path: Path, store: Store) -> None:
    with pytest.raises(InputError, match="leads out"):
        unpack(tmp_path, store, [file("good", b"x"), file("../out", b"x")])
    with pytest.raises(DamagedImage, match="is not sha256:0000"):
        unpack(tmp_path, store, [file("f", b"x")], diff_ids=[f"sha256:{'0' * 64}"])
    layout = read_layout(write_image(tmp_path / "short", [[file("f", b"x")]]))
    layout.blob(layout.layers[0]).write_bytes(b"cut short")
    with pytest.raises(DamagedImage, match=r"layer 0 \(sha256:\w+\) is damaged: it is missing"):
        unpack_image(layout, store, progress=Silent())
    assert not list((store.root / "entries").rglob("tree"))
    assert not list((store.root / "tmp").iterdir())
