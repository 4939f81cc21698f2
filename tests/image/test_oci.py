"""Layouts: valid for other tools' rules, changed in one step, damage found, nothing in them trusted."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from orbit.core.store import Store
from orbit.errors import InputError
from orbit.image import oci
from orbit.image.damage import DamagedImage
from orbit.image.oci import read_layout, verify_layers
from tests.image.conftest import BuildSmall
from tests.writers.tiny_image import Change, file, rewrite, write_image


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
    assert f"sha256:{hashlib.sha256(layout.config_bytes).hexdigest()}" == result.config
    assert [(layer.name, layer.digest, layer.diff_id, layer.size) for layer in layout.layers] == [
        (layer.name, layer.digest, layer.diff_id, layer.size) for layer in result.layers
    ]
    assert all(layer.codec == "zstd" and layer.files for layer in layout.layers)


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


def test_a_damaged_layer_is_found_by_reading_it(store: Store, build_small: BuildSmall) -> None:
    result = build_small(store)
    damage(result.layout / "blobs" / "sha256" / result.layers[2].digest[7:])
    with pytest.raises(DamagedImage, match="damaged"):
        verify_layers(read_layout(result.layout))


def test_a_damaged_document_is_found_at_once(store: Store, build_small: BuildSmall) -> None:
    result = build_small(store)
    damage(result.layout / "blobs" / "sha256" / result.config[7:])
    with pytest.raises(DamagedImage, match="not what its digest says"):
        read_layout(result.layout)


def test_a_missing_or_cut_layer_is_found_by_its_file(tmp_path: Path) -> None:
    layout = read_layout(write_image(tmp_path / "layout", [[file("f", b"x")]]))
    blob = layout.blob(layout.layers[0])
    os.truncate(blob, 10)
    with pytest.raises(DamagedImage, match=r"layer 0 \(sha256:\w+\) is damaged: it is missing"):
        layout.blob(layout.layers[0])
    blob.unlink()
    with pytest.raises(DamagedImage, match=r"layer 0 \(sha256:\w+\) is damaged: it is missing"):
        verify_layers(layout)


@pytest.mark.parametrize(
    ("break_it", "match"),
    [
        (lambda out: (out / "oci-layout").unlink(), "no oci-layout file"),
        (lambda out: (out / "index.json").unlink(), "no index.json file"),
        (lambda out: (out / "oci-layout").write_text("{}"), "oci-layout: Object missing required field"),
        (lambda out: (out / "oci-layout").write_text('{"imageLayoutVersion":"2.0.0"}'), "is '2.0.0', not '1.0.0'"),
        (lambda out: (out / "index.json").write_text("{"), "index.json"),
        (lambda out: (out / "index.json").write_bytes(b'{"mediaType":"\xff"}'), "index.json: Invalid UTF-8"),
        (lambda out: (out / "index.json").write_text(f'{{"x":{"[" * 100_000}'), "index.json: maximum recursion"),
        (lambda out: (out / "index.json").write_text('{"schemaVersion":2,"manifests":[]}'), "0 images"),
        (lambda out: os.truncate(out / "index.json", (4 << 20) + 1), "larger than 4194304 bytes"),
    ],
)
def test_what_is_not_a_layout_is_said_so(tmp_path: Path, break_it: object, match: str) -> None:
    layout = write_image(tmp_path / "layout", [[file("f", b"x")]])
    assert callable(break_it)
    break_it(layout)
    with pytest.raises(InputError, match=match):
        read_layout(layout)


def at(*keys: str | int, value: object) -> Change:
    """The change that puts ``value`` at that place of a document."""

    def change(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("document", "change", "says"),
    [
        ("index", at("schemaVersion", value=1), "schemaVersion is 1, not 2"),
        ("index", at("mediaType", value=DOCKER), "index.json: mediaType is"),
        ("index", at("manifests", 0, "mediaType", value=oci.INDEX_TYPE), "mediaType of what it names is"),
        ("index", at("manifests", 0, "digest", value="sha256:../../index.json"), "index.json: digest .* is not sha256"),
        ("index", at("manifests", 0, "digest", value=f"{DIGEST}\n"), "is not sha256"),
        ("index", at("manifests", 0, "digest", value=f"sha512:{'a' * 128}"), "is not sha256"),
        ("index", at("manifests", 0, "size", value=-1), r"`int` >= 0 - at `\$.manifests\[0\].size`"),
        ("manifest", at("schemaVersion", value=1), "schemaVersion is 1, not 2"),
        ("manifest", at("mediaType", value=DOCKER), "mediaType is"),
        ("manifest", at("config", "mediaType", value="application/vnd.cncf.helm.config.v1+json"), "cncf.helm"),
        ("manifest", at("config", "digest", value="/etc/passwd"), "digest '/etc/passwd' is not sha256"),
        ("manifest", at("layers", value=[]), "the image has no layers"),
        ("manifest", at("layers", 0, "digest", value="sha256:../../../../etc/passwd"), "is not sha256"),
        ("manifest", at("layers", 0, "mediaType", value="application/x-xz"), "media type 'application/x-xz'"),
        ("manifest", at("layers", 0, "size", value=-5), r"`int` >= 0 - at `\$.layers\[0\].size`"),
        ("config", at("rootfs", "diff_ids", value=["sha256:../../../../etc/passwd"]), "is not sha256"),
        ("config", at("rootfs", "diff_ids", value=[DIGEST, DIGEST]), "1 layers but 2 diff ids"),
        ("config", at("rootfs", "type", value="tree"), "rootfs.type is 'tree', not 'layers'"),
        ("config", at("config", value={"Env": ["NAME"]}), "'NAME' is not NAME=value"),
        ("config", at("config", value={"Env": ["=value"]}), "'=value' is not NAME=value"),
        ("config", at("config", value={"Env": ["A=\0"]}), "has a NUL character"),
        ("config", at("config", value={"WorkingDir": "\0"}), "has a NUL character"),
        ("config", at("config", value={"Entrypoint": "sh"}), "Expected `array`"),
    ],
)
def test_a_hostile_document_is_refused(tmp_path: Path, document: str, change: Change, says: str) -> None:
    layout = write_image(tmp_path / "layout", [[file("f", b"x")]])
    assert read_layout(layout).layers[0].name == "0"
    rewrite(layout, **{document: change})
    with pytest.raises(InputError, match=says):
        read_layout(layout)


@pytest.mark.parametrize("document", ["index", "manifest"])
def test_a_document_that_is_missing_or_of_another_size_is_damage(tmp_path: Path, document: str) -> None:
    place = ("manifests", 0) if document == "index" else ("config",)
    layout = write_image(tmp_path / "layout", [[file("f", b"x")]])
    rewrite(layout, **{document: at(*place, "size", value=7)})
    with pytest.raises(DamagedImage, match=r"bytes, and 7 by"):
        read_layout(layout)
    rewrite(layout, **{document: at(*place, "digest", value=DIGEST)})
    with pytest.raises(DamagedImage, match=rf"{'a' * 64} is damaged: it is missing"):
        read_layout(layout)


@pytest.mark.parametrize("said", ["\u00b2", "-1", "1_0", " 1", "9" * 5000, ""])
def test_a_count_that_is_none_is_not_known(tmp_path: Path, said: str) -> None:
    layout = write_image(tmp_path / "layout", [[file("f", b"x")]])
    told = {oci.TAR_BYTES_KEY: said, oci.FILES_KEY: said}
    rewrite(layout, manifest=at("layers", 0, "annotations", value=told))
    (layer,) = read_layout(layout).layers
    assert (layer.tar_bytes, layer.files) == (None, None)


def test_a_configuration_with_nulls_as_docker_writes_it_is_read(tmp_path: Path) -> None:
    nulls = {"Cmd": None, "Entrypoint": None, "Labels": None, "Env": ["A=b"], "Volumes": None, "OnBuild": None}
    layout = read_layout(write_image(tmp_path / "layout", [[file("f", b"x")]], config=nulls))
    assert (layout.config.config.cmd, layout.config.config.labels) == ((), {})
    assert layout.config.config.env == ("A=b",)
