"""Squashfs: every file of the image is in it as the image has it, and the bytes depend on the image alone."""

from __future__ import annotations

import hashlib
import os
import random
import stat
import subprocess
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import MissingError
from orbit.image.damage import DamagedImage
from orbit.image.export import squashfs
from orbit.image.export.squashfs import find_mksquashfs, write_squashfs
from orbit.image.oci import read_layout
from orbit.image.rootfs import unpack_image
from tests.image.export.test_merge import hardlink
from tests.image.test_foreign import need
from tests.image.test_oci import damage
from tests.writers.tiny_image import file, folder, symlink, write_image

LONG = "x" * 60
LOWER = [
    folder("etc", 0o700), file("etc/secret", random.Random(3).randbytes(300_000), 0o600),
    file("etc/tool", b"t", 0o4755), folder("empty"),
    file("gone", b"g"), file("twin", b"one"), hardlink("twin2", "twin"), file("was/dir/f", b"f"),
    symlink("absolute", "/etc/tool"), symlink("accent", "/usr/\u00e9"), symlink("long", f"/{LONG}/{LONG}/{LONG}"),
    file(f"{LONG}/{LONG}/{LONG}/f", b"deep"), file("\u00e9", b"accent"),
]  # fmt: skip
UPPER = [
    folder("etc", 0o700),
    folder("was"),
    file(".wh.gone"),
    file("was/.wh.dir"),
    file("twin", b"two"),
    file("etc/new", b"n"),
]


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    return write_image(tmp_path / "layout", [LOWER, UPPER])


@pytest.fixture
def tools() -> str:
    need("mksquashfs")
    return need("unsquashfs")


Facts = dict[str, tuple[str, int, int, int, str]]


def facts(root: Path) -> tuple[Facts, set[frozenset[str]]]:
    """(path -> kind, mode, owner, group, content; groups of names of one file)."""
    found: Facts = {}
    nodes: dict[int, set[str]] = {}
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(place, name)
            info, inner = path.lstat(), str(path.relative_to(root))
            kind, content = "dir", ""
            if stat.S_ISLNK(info.st_mode):
                kind, content = "link", os.readlink(path)
            elif stat.S_ISREG(info.st_mode):
                kind, content = "file", hashlib.sha256(path.read_bytes()).hexdigest()
                nodes.setdefault(info.st_ino, set()).add(inner)
            mode = 0 if kind == "link" else stat.S_IMODE(info.st_mode)
            found[inner] = (kind, mode, info.st_uid, info.st_gid, content)
    return found, {frozenset(names) for names in nodes.values()}


@pytest.mark.integration
def test_every_file_is_as_the_image_has_it(layout: Path, tmp_path: Path, tools: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can unpack files of other owners and modes")
    out = tmp_path / "x.sqfs"
    write_squashfs(read_layout(layout), out, Silent())
    subprocess.run([tools, "-q", "-n", "-d", tmp_path / "tree", out], check=True, capture_output=True)
    root = unpack_image(read_layout(layout), Store(tmp_path / "store"), progress=Silent()).path
    assert facts(tmp_path / "tree") == facts(root)
    assert (tmp_path / "tree" / "twin2").read_bytes() == b"one"


@pytest.mark.integration
def test_the_bytes_depend_on_the_image_alone(
    layout: Path, tmp_path: Path, tools: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = read_layout(layout)
    write_squashfs(image, tmp_path / "one", Silent())
    monkeypatch.setattr(squashfs, "MEMORY", "64M")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    subprocess.run(["touch", "-d", "2001-01-01", layout / "index.json"], check=True)
    write_squashfs(image, tmp_path / "two", Silent())
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    said = subprocess.run([tools, "-lln", tmp_path / "one"], capture_output=True, check=True, env={"TZ": "UTC"}).stdout
    lines = [line for line in said.decode().splitlines() if "squashfs-root" in line]
    assert len(lines) > 10
    assert [line for line in lines if "1980-01-01" not in line] == []


@pytest.mark.integration
def test_a_damaged_layer_is_told(layout: Path, tmp_path: Path, tools: str) -> None:
    image = read_layout(layout)
    damage(image.blob(image.layers[0]))
    with pytest.raises(DamagedImage):
        write_squashfs(image, tmp_path / "x", Silent())


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    tool = tmp_path / "bin" / "mksquashfs"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")


@pytest.mark.parametrize("said", ["mksquashfs version 4.4 (2019/08/29)", "mksquashfs version 3.9", "what?"])
def test_an_old_tool_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    stand_in(tmp_path, monkeypatch, f"echo '{said}'")
    with pytest.raises(MissingError, match="mksquashfs") as caught:
        find_mksquashfs()
    assert "4.5 or newer" in caught.value.fix


def test_a_new_tool_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "echo 'mksquashfs version 4.6.1-dirty (2023/03/25)'; exit 1")
    assert find_mksquashfs() == (tmp_path / "bin" / "mksquashfs", "4.6.1-dirty")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingError, match="not installed"):
        find_mksquashfs()
