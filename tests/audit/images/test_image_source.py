"""What an image says of itself: layouts and archives of every writer, several platforms, damage as a sentence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.audit.images import image_source
from orbit.audit.images.image_source import (
    Archive,
    FolderArchive,
    ImageRef,
    TarArchive,
    follow,
    link_target,
    read_image_ref,
)
from orbit.errors import InputError
from tests.writers.images import docker_archive, layout_tar
from tests.writers.tiny_image import Members, file, rewrite, tar_bytes, write_image

LAYERS: list[Members] = [[file("a", b"1")], [file("b", b"2")], [file("a", b"1")]]
DIFF_IDS = tuple(f"sha256:{hashlib.sha256(tar_bytes(members)).hexdigest()}" for members in LAYERS)


def read(archive: Archive) -> ImageRef:
    return read_image_ref(archive, "ref", "amd64")[0]


def tar(tmp_path: Path, data: bytes) -> TarArchive:
    path = tmp_path / "archive.tar"
    path.write_bytes(data)
    return TarArchive(path)


def archives(tmp_path: Path) -> dict[str, FolderArchive | TarArchive]:
    layout = write_image(tmp_path / "layout", LAYERS)
    found: dict[str, FolderArchive | TarArchive] = {"layout": FolderArchive(layout)}
    for name, data in {
        "layout tar": layout_tar(layout),
        "docker": docker_archive(LAYERS),
        "docker, old": docker_archive(LAYERS, old=True),
    }.items():
        path = tmp_path / name
        path.write_bytes(data)
        found[name] = TarArchive(path)
    return found


def test_every_form_names_the_same_layers(tmp_path: Path) -> None:
    for name, archive in archives(tmp_path).items():
        image = read(archive)
        assert image.facts.layers == DIFF_IDS, name
        assert image.facts.architecture == "amd64"
        for ref, members in zip(image.layers, LAYERS, strict=True):
            place = archive.place(ref.name)
            assert place is not None, name
            data = place.path.read_bytes()[place.offset : place.offset + place.size]
            assert not ref.digest or f"sha256:{hashlib.sha256(data).hexdigest()}" == ref.digest
            assert data == tar_bytes(members) or data[:2] == b"\x1f\x8b"


def test_the_configuration(tmp_path: Path) -> None:
    run = {"Env": ["A=1=2", "B"], "Entrypoint": ["/e", "x"], "Cmd": None, "User": "1000:50", "WorkingDir": "/w",
           "Labels": {"k": "v"}}  # fmt: skip
    image = read(tar(tmp_path, docker_archive(LAYERS, **run)))
    assert image.variables == {"A": "1=2"}
    facts = image.facts
    assert (facts.entrypoint, facts.command, facts.user, facts.working_dir) == (("/e", "x"), (), "1000:50", "/w")
    assert (dict(facts.labels), facts.reference) == ({"k": "v"}, "ref")
    assert facts.digest.startswith("sha256:")


def index_of(
    layout: Path, platforms: list[dict[str, str] | None], *, nested: bool = False, docker: bool = False
) -> None:
    """Name the one image of ``layout`` once for each platform; other platforms get a manifest of their own."""
    top = json.loads((layout / "index.json").read_bytes())
    (described,) = top["manifests"]
    blobs = layout / "blobs" / "sha256"
    content = json.loads((blobs / described["digest"].removeprefix("sha256:")).read_bytes())
    items = []
    for number, platform in enumerate(platforms):
        data = json.dumps(content | {"annotations": {"n": str(number)}}).encode()
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        media = "application/vnd.docker.distribution.manifest.v2+json" if docker else described["mediaType"]
        item: dict[str, Any] = {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}
        items.append(item | ({"platform": platform} if platform else {}))
    index: dict[str, Any] = {"schemaVersion": 2, "manifests": items}
    if nested:
        data = json.dumps(index).encode()
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        media = "application/vnd.oci.image.index.v1+json"
        index = {
            "schemaVersion": 2,
            "manifests": [{"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}],
        }
    (layout / "index.json").write_text(json.dumps(index))


AMD = {"os": "linux", "architecture": "amd64"}
ARM = {"os": "linux", "architecture": "arm64"}
ATTESTATION = {"os": "unknown", "architecture": "unknown"}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("docker", [False, True])
def test_of_several_platforms_one_is_chosen_and_it_is_said(tmp_path: Path, nested: bool, docker: bool) -> None:
    layout = write_image(tmp_path / "layout", LAYERS)
    index_of(layout, [ARM, AMD, ATTESTATION], nested=nested, docker=docker)
    image, remark = read_image_ref(FolderArchive(layout), "ref", "amd64")
    assert image.facts.layers == DIFF_IDS
    assert remark == "linux/amd64 chosen of 2 platforms"
    index_of(write_image(tmp_path / "one", LAYERS), [AMD, ATTESTATION])
    assert read_image_ref(FolderArchive(tmp_path / "one"), "ref", "amd64")[1] == ""


@pytest.mark.parametrize(
    ("platforms", "word"),
    [
        ([ARM], "no image for linux/amd64"),
        ([AMD, AMD], "2 images for linux/amd64"),
        ([None, AMD], "2 images"),
        ([], "no image"),
    ],
)
def test_what_cannot_be_chosen_is_refused(tmp_path: Path, platforms: list[dict[str, str] | None], word: str) -> None:
    layout = write_image(tmp_path / "layout", LAYERS)
    index_of(layout, platforms)
    with pytest.raises(InputError, match=word):
        read(FolderArchive(layout))


def test_indexes_in_indexes_end_somewhere(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "layout", LAYERS)
    for _ in range(image_source.MAX_DEPTH + 2):
        data = (layout / "index.json").read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        (layout / "blobs" / "sha256" / digest).write_bytes(data)
        media = "application/vnd.oci.image.index.v1+json"
        item = {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}
        (layout / "index.json").write_text(json.dumps({"manifests": [item]}))
    with pytest.raises(InputError, match="indexes in indexes"):
        read(FolderArchive(layout))


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "digest leads out": (lambda m: m["layers"][0].update(digest="sha256:../../../etc/passwd"), "is not sha256"),
    "another algorithm": (lambda m: m["layers"][0].update(digest="sha512:" + "a" * 128), "is not sha256"),
    "a layer less": (lambda m: m["layers"].pop(), "layers, but"),
    "no config": (lambda m: m["config"].update(digest="sha256:" + "0" * 64), "is missing"),
    "wrong size of the config": (lambda m: m["config"].update(size=1), "not what its digest says"),
    "no layers": (lambda m: m.pop("layers"), "missing required field"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_documents_are_refused(tmp_path: Path, name: str) -> None:
    change, word = DAMAGE[name]
    layout = write_image(tmp_path / "layout", LAYERS)
    rewrite(layout, manifest=change)
    with pytest.raises(InputError, match=word):
        read(FolderArchive(layout))


def test_a_changed_document_is_seen(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "layout", LAYERS)
    for path in (layout / "blobs" / "sha256").iterdir():
        if path.read_bytes()[:1] == b"{":
            path.write_bytes(path.read_bytes().replace(b"amd64", b"arm64"))
    with pytest.raises(InputError, match="not what its digest says"):
        read(FolderArchive(layout))


def test_a_changed_configuration_of_a_docker_archive_is_seen(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not what its digest says"):
        read(tar(tmp_path, docker_archive(LAYERS).replace(b'"amd64"', b'"arm64"')))


def manifest(*images: dict[str, Any]) -> bytes:
    return tar_bytes([file("manifest.json", json.dumps(list(images)).encode()), file("c.json", b"{}")])


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (tar_bytes([file("other", b"x")]), "not an image"),
        (manifest(), "0 images"),
        (
            manifest(
                {"Config": "c.json", "Layers": [], "RepoTags": ["a:1"]},
                {"Config": "d", "Layers": [], "RepoTags": ["b:2"]},
            ),
            "2 images in it .a:1, b:2.",
        ),
        (manifest({"Config": "missing.json", "Layers": []}), "missing.json is missing"),
        (manifest({"Config": "c.json", "Layers": ["x"]}), "1 layers, but 0 diff ids"),
        (tar_bytes([file("manifest.json", b"[" * 100_000)]), "manifest.json"),
        (tar_bytes([file("manifest.json", b'{"a": 1}')]), "manifest.json"),
        (tar_bytes([file("manifest.json", b"\xff\xfe")]), "manifest.json"),
        (tar_bytes([file("index.json", b"{}")]), "index.json"),
        (b"", "empty"),
    ],
)
def test_what_is_no_image_is_refused(tmp_path: Path, data: bytes, word: str) -> None:
    with pytest.raises(InputError, match=word):
        read(tar(tmp_path, data))


def test_a_document_that_is_far_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_source, "DOCUMENT_BYTES_MAX", 100)
    with pytest.raises(InputError, match="larger than 100 bytes"):
        read(FolderArchive(write_image(tmp_path / "layout", LAYERS)))


def test_links_in_archives() -> None:
    assert link_target("b/layer.tar", "../a/layer.tar", hard=False) == "a/layer.tar"
    assert link_target("b/layer.tar", "a/layer.tar", hard=True) == "a/layer.tar"
    assert link_target("b/layer.tar", "../../etc/passwd", hard=False) == ""
    assert follow("x", {"x": "y", "y": "z"}) == "z"
    assert follow("x", {"x": "y", "y": "x"}) is None
    assert follow("./x/", {}) == "x"
    assert follow("../x", {}) is None


def test_a_folder_holds_no_documents_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "index.json").mkdir()
    archive = FolderArchive(tmp_path)
    assert archive.place("index.json") is None
    assert archive.place("no\0name") is None
    assert archive.document("index.json") is None


GOOD = docker_archive(LAYERS, old=True)


@settings(max_examples=300, deadline=None)
@given(
    edits=st.lists(st.tuples(st.integers(0, len(GOOD)), st.binary(min_size=1, max_size=30)), max_size=5),
    cut=st.integers(1, 2 * len(GOOD)),
)
def test_a_changed_archive_is_an_image_or_a_typed_error(
    edits: list[tuple[int, bytes]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = bytearray(GOOD)
    for at, piece in edits:
        data[at : at + len(piece)] = piece
    path = tmp_path_factory.mktemp("archive") / "x.tar"
    path.write_bytes(data[:cut])
    try:
        archive = TarArchive(path)
        for ref in read(archive).layers:
            place = archive.place(ref.name)
            assert place is None or place.offset + place.size <= path.stat().st_size
    except InputError:
        return
