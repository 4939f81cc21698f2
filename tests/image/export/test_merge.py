"""Layers joined into one tree: compared with unpacking and joining them on disk, which is other code."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import InputError
from orbit.image.damage import DamagedImage
from orbit.image.export.merge import merged_tar
from orbit.image.oci import read_layout
from orbit.image.rootfs import unpack_image
from tests.image.test_oci import damage
from tests.writers.tiny_image import Members, file, folder, other, symlink, write_image

Tree = dict[str, tuple[str, bytes | str]]
NAMES = ("a", "a/b", "a/b/c", "a/d", "e", "e/f", "e/f/g", "h")


def hardlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return other(name, tarfile.LNKTYPE, target)


def joined(layout: Path) -> bytes:
    return b"".join(merged_tar(read_layout(layout), Silent()))


def read(data: bytes) -> tuple[Tree, set[frozenset[str]]]:
    """(path -> kind and content, groups of names of one file) of a tar stream."""
    tree: Tree = {}
    groups: dict[str, set[str]] = defaultdict(set)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            assert member.name not in tree
            if member.isreg():
                tree[member.name] = ("file", archive.extractfile(member).read())  # type: ignore[union-attr]
                groups[member.name].add(member.name)
            elif member.islnk():
                tree[member.name] = tree[member.linkname]
                groups[member.linkname].add(member.name)
            else:
                tree[member.name] = ("dir", "") if member.isdir() else ("link", member.linkname)
    return tree, {frozenset(names) for names in groups.values()}


def on_disk(layout: Path, store: Store) -> tuple[Tree, set[frozenset[str]]]:
    """The same of the image unpacked."""
    root = unpack_image(read_layout(layout), store, progress=Silent()).path
    tree: Tree = {}
    groups: dict[int, set[str]] = defaultdict(set)
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(place, name)
            inner = str(path.relative_to(root))
            if path.is_symlink():
                tree[inner] = ("link", os.readlink(path))
            elif path.is_dir():
                tree[inner] = ("dir", "")
            else:
                tree[inner] = ("file", path.read_bytes())
                groups[path.stat().st_ino].add(inner)
    return tree, {frozenset(names) for names in groups.values()}


@st.composite
def layers(draw: st.DrawFn) -> list[Members]:
    """One to four layers of members that a tree can have, with whiteouts, opaque folders, links."""
    found: list[Members] = []
    for number in range(draw(st.integers(1, 4))):
        members, kinds = [], {}
        for name in NAMES:
            kind = draw(st.sampled_from(("none", "none", "file", "dir", "link", "hard", "gone", "opaque")))
            above = [name[:i] for i, letter in enumerate(name) if letter == "/"]
            if any(kinds.get(parent, "dir") not in ("dir", "none", "gone", "opaque") for parent in above):
                continue
            files = sorted(other for other, what in kinds.items() if what == "file")
            if kind == "hard" and not files:
                kind = "file"
            if kind in ("file", "link", "hard") and any(other.startswith(f"{name}/") for other in kinds):
                continue
            kinds[name] = kind
            parent, _, base = name.rpartition("/")
            members += {
                "none": [],
                "file": [file(name, f"{number} {name}".encode())],
                "dir": [folder(name)],
                "link": [symlink(name, f"to-{number}")],
                "hard": [hardlink(name, files[0])] if files else [],
                "gone": [file(f"{parent}/.wh.{base}".lstrip("/"))],
                "opaque": [folder(name), file(f"{name}/.wh..wh..opq")],
            }[kind]
        found.append(members)
    return found


@settings(max_examples=50)
@given(layers())
def test_the_stream_is_the_tree_that_unpacking_makes(found: list[Members]) -> None:
    with tempfile.TemporaryDirectory() as place:
        layout = write_image(Path(place, "layout"), found)
        assert read(joined(layout)) == on_disk(layout, Store(Path(place, "store")))


def test_a_hard_link_whose_file_was_replaced_keeps_the_content(tmp_path: Path) -> None:
    below = [file("t", b"old"), hardlink("u", "t"), hardlink("v", "u")]
    layout = write_image(tmp_path / "layout", [below, [file("t", b"new")]])
    tree, groups = read(joined(layout))
    assert tree == {"t": ("file", b"new"), "u": ("file", b"old"), "v": ("file", b"old")}
    assert groups == {frozenset({"t"}), frozenset({"u", "v"})}


def test_owner_mode_time_and_attributes_stay(tmp_path: Path) -> None:
    info, data = file("bin/ping", b"x", 0o4755)
    info.uid, info.gid, info.mtime = 7, 8, 1_000_000
    info.pax_headers = {"SCHILY.xattr.security.capability": "\x01cap", "comment": "left out"}
    top, _ = folder("bin", 0o700)
    top.uid = 3
    layout = write_image(tmp_path / "layout", [[(top, b""), (info, data)]])
    with tarfile.open(fileobj=io.BytesIO(joined(layout))) as archive:
        place, found = archive.getmembers()
    assert (place.name, place.mode, place.uid) == ("bin", 0o700, 3)
    assert (found.mode, found.uid, found.gid, found.mtime) == (0o4755, 7, 8, 1_000_000)
    assert found.pax_headers == {"SCHILY.xattr.security.capability": "\x01cap"}


def test_folders_nobody_wrote_are_there(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "layout", [[file("a/b/c/d", b"x")], [folder("a/b", 0o711)]])
    with tarfile.open(fileobj=io.BytesIO(joined(layout))) as archive:
        modes = {member.name: member.mode for member in archive if member.isdir()}
    assert modes == {"a": 0o755, "a/b": 0o711, "a/b/c": 0o755}


def test_folders_nobody_wrote_stay_when_their_file_goes(tmp_path: Path) -> None:
    tree, _ = read(joined(write_image(tmp_path / "layout", [[file("e/f/g")], [file("e/f/.wh.g")]])))
    assert tree == {"e": ("dir", ""), "e/f": ("dir", "")}
    gone, _ = read(joined(write_image(tmp_path / "other", [[file("e/f/g")], [file("e/.wh.f")]])))
    assert gone == {"e": ("dir", "")}


def test_long_names_and_other_alphabets(tmp_path: Path) -> None:
    long = "/".join(["x" * 60] * 5)
    members = [file(f"{long}/f", b"1"), symlink("a", f"/{long}"), symlink("b", "/\u00e9"), file("\u00e9", b"2")]
    layout = write_image(tmp_path / "layout", [members])
    tree, _ = read(joined(layout))
    assert tree["a"] == ("link", f"/{long}")
    assert tree["b"] == ("link", "/\u00e9")
    assert tree["\u00e9"] == ("file", b"2")
    assert tree[f"{long}/f"] == ("file", b"1")


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ([file("/etc/passwd")], "leads out"),
        ([file("a/../../b")], "leads out"),
        ([file("a"), file("a/b")], "not a folder"),
        ([symlink("a", "/"), file("a/b")], "not a folder"),
        ([file("a/b"), symlink("a", "/")], "twice"),
        ([file("a"), file("./a")], "twice"),
        ([hardlink("a", "b")], "hard link"),
        ([symlink("b", "x"), hardlink("a", "b")], "hard link"),
        ([other("a", tarfile.CHRTYPE)], "device"),
        ([other("a", tarfile.FIFOTYPE)], "device"),
    ],
)
def test_what_no_tree_can_have_is_refused(tmp_path: Path, members: Members, says: str) -> None:
    layout = write_image(tmp_path / "layout", [members])
    with pytest.raises(InputError, match=says):
        joined(layout)


def test_a_damaged_layer_is_told_before_the_end(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "layout", [[file("a", os.urandom(100_000))]])
    image = read_layout(layout)
    damage(image.blob(image.layers[0]))
    with pytest.raises(DamagedImage):
        joined(layout)


def test_a_layer_that_is_no_tar_is_told(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "layout", [[file("a", b"x" * 5000)]], diff_ids=["sha256:" + "0" * 64])
    with pytest.raises(DamagedImage, match="content is not"):
        joined(layout)
