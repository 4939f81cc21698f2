"""An image as the base: only the one that was named, its layers as they are, its packages from dpkg's database."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from orbit.core.console import Progress, Silent
from orbit.core.store import Store
from orbit.errors import InputError, OrbitError
from orbit.image import base as base_room
from orbit.image.base import BaseDefinition, make_base
from orbit.image.base.pinned import Pull, named_layers, obtain_image
from orbit.image.damage import DamagedImage
from orbit.image.oci import Layout, read_layout
from orbit.image.registry.push import push
from orbit.image.registry.reference import parse_reference
from tests.image.registry.fake import FakeRegistry, serving
from tests.writers.tiny_image import Members, file, folder, rewrite, write_image

STATUS = b"Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nSource: glibc\nVersion: 2.36-9\n"
NEWER = STATUS.replace(b"2.36-9", b"2.36-10")
DPKG = "var/lib/dpkg"


def nothing(reference: str, _out: Path, _progress: Progress) -> Layout:
    raise AssertionError(f"{reference} was pulled")


def image(tmp_path: Path, *layers: Members) -> tuple[Path, str]:
    """An image on disk and its reference."""
    path = write_image(tmp_path / "layout", layers or [[folder("etc"), file("etc/a", b"a")], [file("b", b"b")]])
    return path, f"oci:{path}@{read_layout(path).digest}"


def test_layers_are_taken_byte_for_byte(tmp_path: Path, store: Store) -> None:
    path, reference = image(tmp_path)
    entry, pinned = obtain_image(reference, store, Silent(), nothing)
    layout = read_layout(path)
    named = named_layers(entry, pinned)
    assert [layer.name for layer in named] == ["base", "base-2"]
    assert [(layer.blob.digest, layer.blob.diff_id, layer.blob.size, layer.blob.codec) for layer in named] == [
        (layer.digest, layer.diff_id, layer.size, layer.codec) for layer in layout.layers
    ]
    for layer, there in zip(named, layout.layers, strict=True):
        assert layer.path.read_bytes() == layout.blob(there).read_bytes()
        assert layer.blob.tar_bytes == len(gzip.decompress(layer.path.read_bytes()))
    assert [layer.blob.files for layer in named] == [1, 1]


def test_the_image_may_be_gone_afterwards_and_a_damaged_copy_is_made_again(tmp_path: Path, store: Store) -> None:
    path, reference = image(tmp_path)
    entry, pinned = obtain_image(reference, store, Silent(), nothing)
    elsewhere = reference.replace(str(path), "/nowhere")
    assert obtain_image(elsewhere, store, Silent(), nothing)[0].reused
    blob = named_layers(entry, pinned)[0].path
    blob.chmod(0o644)
    blob.write_bytes(b"x" * blob.stat().st_size)
    again, pinned = obtain_image(reference, store, Silent(), nothing)
    assert not again.reused
    first = named_layers(again, pinned)[0]
    assert f"sha256:{hashlib.sha256(first.path.read_bytes()).hexdigest()}" == first.blob.digest


def test_another_image_in_that_folder_is_refused(tmp_path: Path, store: Store) -> None:
    path, _ = image(tmp_path)
    with pytest.raises(InputError, match="the definition says sha256:0000"):
        obtain_image(f"oci:{path}@sha256:{'0' * 64}", store, Silent(), nothing)
    with pytest.raises(InputError, match="has no digest"):
        obtain_image(f"oci:{path}", store, Silent(), nothing)


def test_a_damaged_layer_is_refused_and_nothing_is_kept(tmp_path: Path, store: Store) -> None:
    path, reference = image(tmp_path)
    layout = read_layout(path)
    blob = layout.blob(layout.layers[1])
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    blob.write_bytes(data)
    with pytest.raises(DamagedImage, match="is damaged"):
        obtain_image(reference, store, Silent(), nothing)
    assert list((store.root / "tmp").iterdir()) == []


def test_a_layer_that_is_not_its_diff_id_is_refused(tmp_path: Path, store: Store) -> None:
    layers = [[file("a", b"a")]]
    path = write_image(tmp_path / "layout", layers, diff_ids=[f"sha256:{'1' * 64}"])
    with pytest.raises(DamagedImage, match="content is not sha256:1111"):
        obtain_image(f"oci:{path}@{read_layout(path).digest}", store, Silent(), nothing)


def test_an_image_for_another_machine_is_refused(tmp_path: Path, store: Store) -> None:
    path, _ = image(tmp_path)
    rewrite(path, config=lambda document: document.update(architecture="arm64"))
    with pytest.raises(InputError, match="an image for linux/arm64"):
        obtain_image(f"oci:{path}@{read_layout(path).digest}", store, Silent(), nothing)


@pytest.mark.parametrize(
    ("layers", "versions"),
    [
        ([[file("etc/x")]], []),
        ([[file(f"{DPKG}/status", STATUS)]], ["2.36-9"]),
        ([[file(f"./{DPKG}/status", STATUS)], [file(f"{DPKG}/status", NEWER)]], ["2.36-10"]),
        ([[file(f"{DPKG}/status", STATUS)], [file(f"{DPKG}/.wh.status")]], []),
        ([[file(f"{DPKG}/status", STATUS)], [file("var/lib/.wh.dpkg")]], []),
        ([[file(f"{DPKG}/status", STATUS)], [file("var/.wh..wh..opq")]], []),
        ([[file(f"{DPKG}/status", STATUS)], [file(f"{DPKG}/.wh..wh..opq"), file(f"{DPKG}/status", NEWER)]],
         ["2.36-10"]),
        ([[file(f"{DPKG}/status", STATUS)], [file("var/lib/.wh.dpk"), file("other/.wh..wh..opq")]], ["2.36-9"]),
        ([[file(f"{DPKG}/status.d/libc6", STATUS.replace(b"Status: install ok installed\n", b"")),
           file(f"{DPKG}/status.d/libc6.md5sums", b"0  usr/lib/x\n")]], ["2.36-9"]),
    ],
)  # fmt: skip
def test_packages_are_what_the_topmost_database_says(
    tmp_path: Path, store: Store, layers: list[Members], versions: list[str]
) -> None:
    _, reference = image(tmp_path, *layers)
    _, pinned = obtain_image(reference, store, Silent(), nothing)
    assert [package.version for package in pinned.packages] == versions
    assert {(package.name, package.source) for package in pinned.packages} <= {("libc6", "glibc")}


def define(monkeypatch: pytest.MonkeyPatch, reference: str) -> None:
    monkeypatch.setattr(base_room, "load_base", lambda _name: BaseDefinition(schema=2, image=reference))


def test_from_a_registry(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = image(tmp_path, [file(f"{DPKG}/status", STATUS)], [file("b", b"b")])
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "no-docker"))
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    with serving(FakeRegistry()) as registry:
        digest = push(path, parse_reference(f"{registry.host}/team/base:1"), progress=Silent()).digest
        define(monkeypatch, f"{registry.host}/team/base@{digest}")
        first = make_base("mine", store, progress=Silent())
        define(monkeypatch, f"{registry.host}/team/base@sha256:{'5' * 64}")
        with pytest.raises(OrbitError, match="5555"):
            make_base("mine", store, progress=Silent())
        define(monkeypatch, f"{registry.host}/team/base:1@{digest}")
    second = make_base("mine", store, progress=Silent())
    assert (first.reused, second.reused, first.tar) == (False, True, None)
    assert f"sha256:{first.sha256}" == digest == read_layout(path).digest
    assert [layer.blob.digest for layer in first.layers] == [layer.digest for layer in read_layout(path).layers]
    assert [(package.name, package.version) for package in first.packages] == [("libc6", "2.36-9")]
    assert first.files == 2
    assert list((store.root / "downloads").iterdir()) == []


def test_what_pulls_can_be_anything(tmp_path: Path, store: Store) -> None:
    path, reference = image(tmp_path)
    asked: list[str] = []

    def pull(name: str, out: Path, _progress: Progress) -> Layout:
        asked.append(name)
        out.mkdir(parents=True)
        return read_layout(path)

    puller: Pull = pull
    name = f"registry.example/base@{reference.partition('@')[2]}"
    obtain_image(name, store, Silent(), puller)
    assert asked == [name]
