"""Layouts: valid for other tools' rules, changed in one step, damage found."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from orbit.core.store import Store
from orbit.errors import CheckFailed, InputError
from orbit.image import oci
from orbit.image.oci import read_layout, verify_layers, write_layout
from tests.image.conftest import BuildSmall


def test_the_layout_is_what_the_specification_says(store: Store, build_small: BuildSmall) -> None:
    result = build_small(store)
    out = result.layout
    assert json.loads((out / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((out / "index.json").read_bytes())
    (described,) = index["manifests"]
    assert index["schemaVersion"] == 2
    assert described["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    assert described["digest"] == result.digest
    for path in (out / "blobs" / "sha256").iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    manifest = json.loads((out / "blobs" / "sha256" / result.digest[7:]).read_bytes())
    config = json.loads((out / "blobs" / "sha256" / manifest["config"]["digest"][7:]).read_bytes())
    assert len(list((out / "blobs" / "sha256").iterdir())) == len(manifest["layers"]) + 2
    assert all(set(layer) <= {"mediaType", "digest", "size", "annotations"} for layer in manifest["layers"])
    assert config["rootfs"] == {"type": "layers", "diff_ids": [layer.diff_id for layer in result.layers]}
    assert (config["os"], config["architecture"]) == ("linux", "amd64")
    assert set(config["config"]) >= {"Env", "Entrypoint", "Cmd", "WorkingDir", "Labels"}
    assert "User" not in config["config"]


def test_what_is_read_is_what_was_built(store: Store, build_small: BuildSmall) -> None:
    result = build_small(store)
    layout = read_layout(result.layout)
    verify_layers(layout)
    assert layout.digest == result.digest
    assert layout.manifest.config.digest == result.config


def test_blobs_are_links_to_the_store_or_copies_elsewhere(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = build_small(store)
    blob = result.layout / "blobs" / "sha256" / result.layers[0].digest[7:]
    assert blob.stat().st_nlink == 2

    def other_disk(*_names: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", other_disk)
    copied = build_small(store, out=tmp_path / "elsewhere")
    assert copied.digest == result.digest
    verify_layers(read_layout(copied.layout))


def test_a_failure_at_the_last_step_leaves_the_old_layout(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = build_small(store)
    (tmp_path / "checkout" / "orbit" / "new.py").write_text("x = 1\n")

    def full(*_names: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(oci, "replace_folder", full)
    with pytest.raises(OSError, match="No space"):
        build_small(store, root=tmp_path / "checkout")
    assert read_layout(first.layout).digest == first.digest
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_folder_that_is_no_layout_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("mine")
    with pytest.raises(InputError, match="not an OCI layout"):
        write_layout(tmp_path / "out", [], b"{}", b"{}", ref="x")
    assert (tmp_path / "out" / "precious").read_text() == "mine"


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


def test_a_damaged_layer_is_found_by_reading_it(store: Store, build_small: BuildSmall) -> None:
    result = build_small(store)
    damage(result.layout / "blobs" / "sha256" / result.layers[2].digest[7:])
    with pytest.raises(CheckFailed, match="damaged"):
        verify_layers(read_layout(result.layout))


def test_a_damaged_document_is_found_at_once(store: Store, build_small: BuildSmall) -> None:
    result = build_small(store)
    damage(result.layout / "blobs" / "sha256" / result.config[7:])
    with pytest.raises(CheckFailed, match="not what its name says"):
        read_layout(result.layout)


@pytest.mark.parametrize(
    ("break_it", "match"),
    [
        (lambda out: (out / "oci-layout").unlink(), "not an OCI layout"),
        (lambda out: (out / "index.json").write_text("{"), "index.json"),
        (lambda out: (out / "index.json").write_text('{"schemaVersion":2,"manifests":[]}'), "0 images"),
    ],
)
def test_what_is_not_a_layout_is_said_so(store: Store, build_small: BuildSmall, break_it: object, match: str) -> None:
    result = build_small(store)
    assert callable(break_it)
    break_it(result.layout)
    with pytest.raises(InputError, match=match):
        read_layout(result.layout)
