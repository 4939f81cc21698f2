"""Orbit's own layer: complete, and equal to what the project's build backend makes."""

from __future__ import annotations

import base64
import csv
import email
import hashlib
import io
import marshal
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.paths import DATA_FOLDERS, checkout_root
from orbit.core.tools import uv
from orbit.image.layers import SITE
from orbit.image.own import ENTRYPOINT, dist_info, layer_members, own_key, own_members, package_files, read_own
from orbit.image.runtime import STATE_SCRIPT
from orbit.image.tar import Member
from tests.image.world import make_checkout, write_tree

PREFIX = "/opt/orbit"


def members_of(tmp_path: Path, root: Path) -> dict[str, Member]:
    environment = tmp_path / "environment"
    write_tree(environment, {"bin/python3.12": f'#!/bin/sh\nexec {sys.executable} "$@"\n'.encode()})
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    members = own_members(root, environment, PREFIX, scratch, progress=Silent())
    return {member.name.removeprefix("opt/orbit/"): member for member in members}


def data(member: Member) -> bytes:
    assert isinstance(member.source, bytes)
    return member.source


def test_the_layer_is_an_installed_distribution(tmp_path: Path) -> None:
    members = members_of(tmp_path, make_checkout(tmp_path / "checkout"))
    info = f"{SITE}/orbit-0.1.0.dist-info"
    assert {
        f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    } <= set(members)
    assert f"{SITE}/orbit/_data/env/profiles/small.toml" in members
    assert {"bin/orbit", "bin/orbit-entrypoint", STATE_SCRIPT} <= set(members)
    assert members["bin/orbit"].mode == members["bin/orbit-entrypoint"].mode == 0o755
    for path, digest, size in csv.reader(io.StringIO(data(members[f"{info}/RECORD"]).decode())):
        recorded = data(members[os.path.normpath(f"{SITE}/{path}")])
        if digest:
            assert (
                digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(recorded).digest()).rstrip(b"=").decode()
            )
            assert int(size) == len(recorded)
    listed = {
        os.path.normpath(f"{SITE}/{row[0]}")
        for row in csv.reader(io.StringIO(data(members[f"{info}/RECORD"]).decode()))
    }
    assert listed == {name for name in members if not name.endswith(".pyc")}


def test_compiled_files_are_the_interpreters_own_and_name_the_image(tmp_path: Path) -> None:
    members = members_of(tmp_path, make_checkout(tmp_path / "checkout"))
    compiled = data(members[f"{SITE}/orbit/cli/__pycache__/__init__.cpython-312.pyc"])
    assert compiled[4:8] == b"\x01\0\0\0"  # hash-based, never checked (PEP 552)
    assert marshal.loads(compiled[16:]).co_filename == f"{PREFIX}/{SITE}/orbit/cli/__init__.py"
    assert data(members[f"{SITE}/orbit/__pycache__/__init__.cpython-312.pyc"]) != b"stale"


def test_the_key_follows_every_file_and_nothing_else(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "one")
    key = own_key(root)
    (root / "README.md").write_text("not in the image")
    (root / "orbit" / "__pycache__" / "other.pyc").write_bytes(b"x")
    os.utime(root / "orbit" / "__init__.py", (1, 1))
    assert own_key(root) == own_key(make_checkout(tmp_path / "two")) == key
    (root / "pyproject.toml").write_bytes((root / "pyproject.toml").read_bytes() + b"# nothing that is installed\n")
    assert own_key(root) == key
    for name in ("orbit/cli/__init__.py", "env/profiles/small.toml", "pyproject.toml", "LICENSE", ENTRYPOINT):
        old = (root / name).read_bytes()
        (root / name).write_bytes(old.replace(b"small", b"large") if name == "pyproject.toml" else old + b"\n")
        assert own_key(root) != key, name
        (root / name).write_bytes(old)


def test_what_was_read_once_is_what_is_written_whatever_happens_to_the_checkout(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "checkout")
    own = read_own(root)
    key = own.key
    shutil.rmtree(root / "orbit")
    environment = tmp_path / "environment"
    write_tree(environment, {"bin/python3.12": f'#!/bin/sh\nexec {sys.executable} "$@"\n'.encode()})
    (tmp_path / "scratch").mkdir()
    members = layer_members(own, environment, PREFIX, tmp_path / "scratch", progress=Silent())
    assert f"opt/orbit/{SITE}/orbit/cli/__init__.py" in {member.name for member in members}
    assert own.key == key


@pytest.mark.integration
def test_it_holds_what_the_build_backend_puts_into_a_wheel(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    root = checkout_root()
    copy = tmp_path / "checkout"
    for name in ("orbit", *DATA_FOLDERS):
        shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(root / name, copy / name)
    subprocess.run(
        [uv(), "build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", tmp_path, copy],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    project = tomllib.loads((copy / "pyproject.toml").read_text())
    with zipfile.ZipFile(wheel) as archive:
        theirs = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    ours = package_files(copy, project)
    assert {name: body for name, body in theirs.items() if ".dist-info/" not in name} == ours
    info = dist_info(copy, project)
    (name,) = [name for name in theirs if name.endswith("/METADATA")]
    one, other = email.message_from_bytes(theirs[name]), email.message_from_bytes(info["METADATA"])
    for field in ("Name", "Version", "Summary", "License-Expression"):
        assert one[field] == other[field]
    for field in ("Requires-Dist", "Provides-Extra", "License-File"):
        assert sorted(_plain(text) for text in one.get_all(field, [])) == sorted(
            _plain(text) for text in other.get_all(field, [])
        )
    assert set(one["Requires-Python"].split(",")) == set(other["Requires-Python"].split(","))
    assert theirs[name.replace("METADATA", "entry_points.txt")].split() == info["entry_points.txt"].split()


def _plain(requirement: str) -> str:
    return requirement.replace(" ", "").replace('"', "'")
