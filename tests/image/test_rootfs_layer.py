"""One layer: every way a member could try to get out is refused, and modes are kept and told."""

from __future__ import annotations

import os
import random
import stat
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.image.damage import DamagedImage
from orbit.image.oci import read_layout
from orbit.image.rootfs_layer import HOLE_BYTES, LayerTree, unpack_layer
from tests.writers.tiny_image import Members, file, folder, other, symlink, write_image


def unpack(tmp_path: Path, members: Members, diff_ids: Sequence[str] = ()) -> LayerTree:
    image = read_layout(write_image(tmp_path / "layout", [members], diff_ids=diff_ids))
    return unpack_layer(image.blob(image.layers[0]), image.layers[0], tmp_path / "tree", as_root=os.geteuid() == 0)


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ([file("../out", b"x")], "leads out"),
        ([file("a/../../out", b"x")], "leads out"),
        ([file("/etc/passwd", b"x")], "leads out"),
        ([symlink("way", "/tmp"), file("way/out", b"x")], "not a folder"),
        ([file("f", b"x"), file("f/out", b"x")], "not a folder"),
        ([symlink("way", "../../etc")], "above the image's root"),
        ([symlink("a/way", "../../etc")], "above the image's root"),
        ([other("hard", tarfile.LNKTYPE, "/etc/passwd")], "no file of this layer"),
        ([other("hard", tarfile.LNKTYPE, "../../../etc/passwd")], "no file of this layer"),
        ([symlink("s", "f"), other("hard", tarfile.LNKTYPE, "s")], "no file of this layer"),
        ([other("null", tarfile.CHRTYPE)], "is a device"),
        ([other("pipe", tarfile.FIFOTYPE)], "is a device"),
        ([file("f", b"1"), file("f", b"2")], "appears twice"),
        ([file("f", b"1"), folder("f")], "appears twice"),
        ([file(".wh..", b"")], "not a whiteout"),
    ],
)
def test_unsafe_members_are_refused(tmp_path: Path, members: Members, says: str) -> None:
    with pytest.raises(InputError, match=says):
        unpack(tmp_path, members)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path.parent / "out").exists()


def test_a_layer_that_is_not_its_diff_id(tmp_path: Path) -> None:
    with pytest.raises(DamagedImage, match="is not sha256:0000"):
        unpack(tmp_path, [file("f", b"x")], diff_ids=[f"sha256:{'0' * 64}"])


def test_modes_that_keep_a_user_out_are_told(tmp_path: Path) -> None:
    tree = unpack(tmp_path, [folder("secret", 0o700), file("secret/f", b"x", 0o644), file("key", b"x", 0o600)])
    assert tree.closed == ("key", "secret")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root unpacks owners and exact modes")
def test_as_root_modes_are_exact(tmp_path: Path) -> None:
    unpack(tmp_path, [folder("secret", 0o700), file("key", b"x", 0o600)])
    assert stat.S_IMODE((tmp_path / "tree" / "secret").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "tree" / "key").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "parts",
    [
        [(0, 200_000)],
        [(1, 10), (0, 300_000), (1, 70_000), (0, HOLE_BYTES), (1, 1)],
        [(0, HOLE_BYTES - 1), (1, 1), (0, 3 << 20)],
        [(1, HOLE_BYTES), (0, HOLE_BYTES), (1, HOLE_BYTES)],
        [(0, 1)],
        [],
    ],
)
def test_zeros_become_holes_and_nothing_else_changes(tmp_path: Path, parts: list[tuple[int, int]]) -> None:
    data = b"".join(random.Random(size).randbytes(size) if kind else bytes(size) for kind, size in parts)
    unpack(tmp_path, [file("f", data), file("g", b"after")])
    path = tmp_path / "tree" / "f"
    assert path.read_bytes() == data
    assert (tmp_path / "tree" / "g").read_bytes() == b"after"
    zeros = sum(max(0, size - HOLE_BYTES) for kind, size in parts if not kind)
    assert path.stat().st_blocks * 512 <= len(data) - zeros + HOLE_BYTES
