"""Loading into docker: the stream, refusals, and a real engine."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import CheckFailed, MissingError
from orbit.image import docker
from orbit.image.damage import DamagedImage
from orbit.image.docker import archive, find_engine, load_image, require_engine
from orbit.image.oci import TAR_BYTES_KEY, read_layout
from tests.image.conftest import BuildSmall
from tests.image.test_oci import damage
from tests.writers.tiny_image import file, rewrite, write_image


def fake_docker(folder: Path, script: str) -> Path:
    path = folder / "docker"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_stream_is_a_docker_archive_of_plain_layers(store: Store, build_small: BuildSmall) -> None:
    result = build_small(store)
    stream = b"".join(archive(read_layout(result.layout), Silent(), tag="a:b"))
    with tarfile.open(fileobj=io.BytesIO(stream)) as outer:
        manifest = json.loads(outer.extractfile("manifest.json").read())  # type: ignore[union-attr]
        (image,) = manifest
        assert image["RepoTags"] == ["a:b"]
        assert image["Config"] == f"{result.config[7:]}.json"
        assert len(image["Layers"]) == len(result.layers)
        for name, layer in zip(image["Layers"], result.layers, strict=True):
            inner = outer.extractfile(name).read()  # type: ignore[union-attr]
            assert f"sha256:{docker_sha(inner)}" == layer.diff_id
            assert len(inner) == layer.tar_bytes


def docker_sha(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def test_a_damaged_layer_stops_the_load_before_anything_has_a_name(
    store: Store, build_small: BuildSmall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = build_small(store)
    damage(result.layout / "blobs" / "sha256" / result.layers[2].digest[7:])
    log = tmp_path / "log"
    client = fake_docker(
        tmp_path,
        f'echo "$1" >> {log}\ncase "$1" in info) echo "20.10 /nowhere";; image) exit 1;; load) cat > /dev/null;; esac',
    )
    monkeypatch.setenv("ORBIT_DOCKER", str(client))
    with pytest.raises(DamagedImage):
        load_image(result.layout, tag="x:y", progress=Silent())
    assert "tag" not in log.read_text().split()


def test_an_engine_that_ends_up_with_other_layers_is_not_believed(
    store: Store, build_small: BuildSmall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = build_small(store)
    client = fake_docker(tmp_path, "case \"$1\" in info) echo '20.10 /nowhere';; image) echo '[\"sha256:0\"]';; esac")
    monkeypatch.setenv("ORBIT_DOCKER", str(client))
    with pytest.raises(CheckFailed, match="other layers"):
        load_image(result.layout, tag="x:y", progress=Silent())


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'Cannot connect to the Docker daemon' >&2; exit 1", "Cannot connect"),
        ("exit 0", "status 0"),
    ],
)
def test_without_an_engine_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setenv("ORBIT_DOCKER", str(fake_docker(tmp_path, script)))
    with pytest.raises(MissingError, match=said):
        require_engine()


def test_without_a_client_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORBIT_DOCKER", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert find_engine() == "no docker client is installed"
    monkeypatch.setenv("ORBIT_DOCKER", "/nonexistent/docker")
    assert "no such program" in str(find_engine())


@pytest.mark.parametrize("said", ["", "-512", "many"])
def test_a_layout_of_another_tool_without_sizes_is_counted(tmp_path: Path, said: str) -> None:
    path = write_image(tmp_path / "layout", [[file("f", b"x")]])
    before = b"".join(archive(read_layout(path), Silent(), tag=None))
    rewrite(path, manifest=lambda manifest: manifest["layers"][0]["annotations"].update({TAR_BYTES_KEY: said}))
    assert b"".join(archive(read_layout(path), Silent(), tag=None)) == before


def test_a_layout_that_says_a_wrong_size_is_not_believed(tmp_path: Path) -> None:
    path = write_image(tmp_path / "layout", [[file("f", b"x")]])
    rewrite(path, manifest=lambda manifest: manifest["layers"][0]["annotations"].update({TAR_BYTES_KEY: "512"}))
    with pytest.raises(DamagedImage, match="not the 512 bytes"):
        list(archive(read_layout(path), Silent(), tag=None))


def test_a_missing_layer_is_told(tmp_path: Path) -> None:
    layout = read_layout(write_image(tmp_path / "layout", [[file("f", b"x")]]))
    layout.blob(layout.layers[0]).unlink()
    with pytest.raises(DamagedImage, match=r"layer 0 \(sha256:\w+\) is damaged: it is missing"):
        list(archive(layout, Silent(), tag=None))


def test_an_engine_that_goes_away_in_the_middle_is_told_and_no_name_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = write_image(tmp_path / "layout", [[file("f", b"x")]])
    script = f"""echo "$1" >> {tmp_path}/log
case "$1" in
info) [ -e {tmp_path}/gone ] && echo 'Cannot connect to the Docker daemon' >&2 && exit 1; echo '20.10 /nowhere';;
image) exit 1;;
load) head -c 100 > /dev/null; touch {tmp_path}/gone; echo 'error during connect: EOF' >&2; exit 1;;
esac"""
    monkeypatch.setenv("ORBIT_DOCKER", str(fake_docker(tmp_path, script)))
    with pytest.raises(MissingError, match=r"went away while .* was loaded .*Cannot connect") as caught:
        load_image(layout, tag="x:y", progress=Silent())
    assert "run the same command again; nothing has the name" in caught.value.fix
    assert "tag" not in (tmp_path / "log").read_text().split()


@pytest.mark.integration
@pytest.mark.docker
def test_a_real_engine_holds_the_same_layers_under_the_same_id(
    store: Store, build_small: BuildSmall, docker_engine: str
) -> None:
    result = build_small(store)
    loaded = load_image(result.layout, tag="orbit-test/small:one", progress=Silent())
    try:
        assert loaded.id == result.config
        assert loaded.diff_ids == tuple(layer.diff_id for layer in result.layers)
        again = load_image(result.layout, tag="orbit-test/small:two", progress=Silent())
        assert again.reused
    finally:
        env = {**os.environ, "DOCKER_HOST": docker_engine} if docker_engine else None
        for tag in ("one", "two"):
            subprocess.run([str(docker.find_client()), "image", "rm", f"orbit-test/small:{tag}"], env=env, check=False)
