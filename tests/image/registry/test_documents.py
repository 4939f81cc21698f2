"""Manifests of other people: indexes, docker's types, and what is no image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orbit.core.console import Silent
from orbit.errors import CheckFailed, InputError, MissingError
from orbit.image.oci import CONFIG_TYPE, INDEX_TYPE, MANIFEST_TYPE, read_layout, verify_layers
from orbit.image.registry.documents import DOCKER_CONFIG, DOCKER_LIST, DOCKER_MANIFEST
from orbit.image.registry.pull import PullResult, pull
from orbit.image.registry.reference import parse_reference
from tests.image.registry.conftest import QUICK
from tests.image.registry.fake import FakeRegistry

PLATFORM = ("os", "architecture", "variant")


@pytest.fixture
def document(registry: FakeRegistry, layout: Path) -> dict[str, Any]:
    """The image's manifest; its blobs are in the registry."""
    image = read_layout(layout)
    registry.put_blob("a", image.config_bytes)
    for layer in image.layers:
        registry.put_blob("a", image.blob(layer).read_bytes())
    found: dict[str, Any] = json.loads((layout / "blobs/sha256" / image.digest[7:]).read_bytes())
    return found


def get(registry: FakeRegistry, tmp_path: Path, platform: str = "linux/amd64") -> PullResult:
    reference = parse_reference(f"{registry.host}/a:1")
    return pull(reference, tmp_path / "got", progress=Silent(), patience=QUICK, platform=platform)


def entry(digest: str, **platform: str) -> dict[str, Any]:
    return {"mediaType": MANIFEST_TYPE, "digest": digest, "size": 1, "platform": platform}


def test_the_image_of_the_platform_is_chosen(registry: FakeRegistry, document: dict[str, Any], tmp_path: Path) -> None:
    digest = registry.put_manifest("a", "x", document, MANIFEST_TYPE)
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX_TYPE,
        "manifests": [
            entry("sha256:" + "1" * 64, os="unknown", architecture="unknown"),
            entry("sha256:" + "2" * 64, os="linux", architecture="arm64", variant="v8"),
            entry(digest, os="linux", architecture="amd64"),
        ],
    }
    named = registry.put_manifest("a", "1", index, INDEX_TYPE)
    result = get(registry, tmp_path)
    assert (result.digest, result.index) == (digest, named)
    with pytest.raises(MissingError, match="no image for linux/riscv64") as caught:
        get(registry, tmp_path, "linux/riscv64")
    assert "linux/amd64, linux/arm64/v8, unknown/unknown" in caught.value.fix


@pytest.mark.parametrize(
    ("said", "asked", "fits"),
    [
        ({"os": "linux", "architecture": "arm64", "variant": "v8"}, "linux/amd64", False),
        ({"os": "windows", "architecture": "amd64"}, "linux/amd64", False),
        ({"os": "linux", "architecture": "arm64", "variant": "v8"}, "linux/arm64", True),
        ({"os": "linux", "architecture": "arm64"}, "linux/arm64/v8", True),
        ({"os": "linux", "architecture": "arm", "variant": "v6"}, "linux/arm/v7", False),
        ({}, "linux/amd64", True),
    ],
)
def test_a_single_image_must_be_for_the_platform(
    registry: FakeRegistry, layout: Path, document: dict[str, Any], tmp_path: Path, said: dict[str, str], asked: str,
    fits: bool,
) -> None:  # fmt: skip
    config = {
        name: value for name, value in json.loads(read_layout(layout).config_bytes).items() if name not in PLATFORM
    }
    data = json.dumps(config | said).encode()
    document["config"] |= {"digest": registry.put_blob("a", data), "size": len(data)}
    registry.put_manifest("a", "1", document, MANIFEST_TYPE)
    if fits:
        assert get(registry, tmp_path, asked).moved_bytes
        return
    with pytest.raises(MissingError, match=f"has no image for {asked}") as caught:
        get(registry, tmp_path, asked)
    assert caught.value.fix == f"it has: {'/'.join(said.values())} (--platform)"
    assert not (tmp_path / "got").exists()
    assert not (tmp_path / ".got.pull").exists()
    assert len(registry.asked("GET", "/blobs/")) == 1  # the configuration; no layer came


def test_an_index_that_names_what_is_not_there(
    registry: FakeRegistry, document: dict[str, Any], tmp_path: Path
) -> None:
    for digest, kind in (("sha256:" + "2" * 64, MissingError), ("../../x", InputError)):
        index = {"mediaType": DOCKER_LIST, "manifests": [entry(digest, os="linux", architecture="amd64")]}
        registry.put_manifest("a", "1", index, DOCKER_LIST)
        with pytest.raises(kind):
            get(registry, tmp_path)


def test_a_docker_manifest_becomes_ocis(registry: FakeRegistry, document: dict[str, Any], tmp_path: Path) -> None:
    document["mediaType"] = DOCKER_MANIFEST
    document["config"]["mediaType"] = DOCKER_CONFIG
    for layer in document["layers"]:
        layer["mediaType"] = "application/vnd.docker.image.rootfs.diff.tar.gzip"
    digest = registry.put_manifest("a", "1", document, DOCKER_MANIFEST)
    result = get(registry, tmp_path)
    assert result.remote_digest == digest != result.digest
    image = read_layout(tmp_path / "got")
    assert (image.digest, image.manifest.config.media_type) == (result.digest, CONFIG_TYPE)
    assert [layer.digest for layer in image.layers] == [layer["digest"] for layer in document["layers"]]
    verify_layers(image)


DIGEST = "sha256:" + "1" * 64
FOREIGN = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"


def item(kind: str, digest: str = DIGEST, size: int = 1) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest, "size": size}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"mediaType": "application/vnd.docker.distribution.manifest.v1+prettyjws"}, "of type"),
        ({"config": item("application/vnd.cncf.helm.config.v1+json")}, "configuration of type"),
        ({"config": item(CONFIG_TYPE, size=1 << 40)}, "configuration of 10995"),
        ({"config": item(CONFIG_TYPE, "../../etc/passwd")}, "not sha256"),
        ({"layers": [item("application/x")]}, "layer of type"),
        ({"layers": [item(FOREIGN)]}, "layer of type"),
        ({"layers": [{"digest": 5}]}, "Expected|missing"),
        ({"layers": [item("a", size=-1)]}, "Expected"),
    ],
)
def test_what_is_no_image_is_refused_before_anything_comes(
    registry: FakeRegistry, document: dict[str, Any], tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    registry.put_manifest("a", "1", document | change, MANIFEST_TYPE)
    with pytest.raises(InputError, match=says):
        get(registry, tmp_path)
    assert registry.asked("GET", "/blobs/") == []
    assert not (tmp_path / "got").exists()
    assert not (tmp_path / ".got.pull").exists()


def test_a_manifest_that_is_not_what_was_asked_for(
    registry: FakeRegistry, document: dict[str, Any], tmp_path: Path
) -> None:
    digest = registry.put_manifest("a", "1", document, MANIFEST_TYPE)
    registry.manifests["a", digest] = (MANIFEST_TYPE, b'{"other": 1}')
    with pytest.raises(CheckFailed, match=f"not {digest}"):
        pull(parse_reference(f"{registry.host}/a@{digest}"), tmp_path / "got", progress=Silent(), patience=QUICK)
    registry.fault("GET", "/manifests/", "lie")
    with pytest.raises(CheckFailed, match="do not trust it"):
        get(registry, tmp_path)


@pytest.mark.parametrize("platform", ["linux", "Linux/amd64", "linux/amd64/v1/x", ""])
def test_a_platform_is_named_in_full(registry: FakeRegistry, tmp_path: Path, platform: str) -> None:
    with pytest.raises(InputError, match="not a platform"):
        get(registry, tmp_path, platform)
