"""The files of a bundle from a run, a checkout and a folder of statements."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from orbit.errors import InputError, OrbitError
from orbit.release.bundle.gather import checkout_files, evidence_files, key_files, run_files
from orbit.release.bundle.model import role_of
from tests.release.bundle.world import World


def test_everything_of_a_run_but_the_layers(world: World) -> None:
    files = run_files(world.run)
    assert f"sha256:{hashlib.sha256(files['image/manifest.json']).hexdigest()}" == world.digest
    names = {path.name for path in world.run.iterdir() if path.is_file()}
    assert {path.removeprefix("run/") for path in files if path.startswith("run/")} == {
        *names, "image/index.json", "image/oci-layout",
    }  # fmt: skip
    assert [path for path in files if role_of(path) is None] == []
    assert not any("blobs" in path for path in files)


def test_what_a_release_is_by_definition(world: World) -> None:
    files = checkout_files(world.profile, world.root)
    assert sorted(path for path in files if path.startswith("definition/")) == [
        "definition/gate.toml",
        "definition/recipes/orbit-probe.toml",
        "definition/smoke/probe-cpu.toml",
        "definition/smoke/probe-gpu.toml",
    ]
    assert files["uv.lock"] == (world.root / "uv.lock").read_bytes()
    assert files["profile.toml"] == (world.root / "env" / "profiles" / "probe.toml").read_bytes()


def test_statements_and_keys_by_their_names(world: World, tmp_path: Path) -> None:
    assert sorted(evidence_files(world.statements)) == [
        "evidence/qualification.intoto.json",
        "evidence/smoke-h100.intoto.json",
    ]
    key = world.root / "ci" / "keys" / "lab.pub"
    assert key_files([key, key]) == {"keys/lab.pub": key.read_bytes()}
    (tmp_path / "lab.pub").write_bytes(b"another")
    with pytest.raises(InputError, match="another key with that file name"):
        key_files([key, tmp_path / "lab.pub"])


def test_what_is_not_there_is_said(world: World, tmp_path: Path) -> None:
    with pytest.raises(OrbitError, match=r"image"):
        run_files(tmp_path)
    with pytest.raises(InputError, match=r"uv\.lock: no such file"):
        checkout_files(world.profile, tmp_path)
