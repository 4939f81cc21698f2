"""An image on this machine, held against the released one: layouts, archives, digests, and what is none of these."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import MissingError
from orbit.image.docker import archive
from orbit.image.export.archive import oci_archive
from orbit.image.oci import read_layout
from orbit.release.attest.trust import Trust
from orbit.release.bundle.report import Claim, State
from orbit.release.bundle.verify import verify_bundle
from tests.release.bundle.world import DECIDED, World, claim
from tests.writers.tiny_image import file, rewrite, write_image


def judged(world: World, image: str | Path | None) -> Claim:
    return claim(world.verify(image=None if image is None else str(image)), "image")


@pytest.fixture
def layout(world: World, tmp_path: Path) -> Path:
    """A copy of the released image."""
    return shutil.copytree(world.run / "image", tmp_path / "image")


def test_without_an_image_nothing_is_said(world: World) -> None:
    assert judged(world, None).state is State.NOT_CHECKED


def test_the_layout_that_was_released(world: World, layout: Path) -> None:
    found = judged(world, layout)
    assert found.state is State.PROVEN
    assert "2 layers, every byte read" in found.why
    assert judged(world, f"oci:{layout}").state is State.PROVEN


def test_an_archive_of_it(world: World, layout: Path, tmp_path: Path) -> None:
    read = read_layout(layout)
    place = tmp_path / "image.tar"
    place.write_bytes(b"".join(oci_archive(read, {}, Silent())))
    assert judged(world, place).state is State.PROVEN
    saved = tmp_path / "saved.tar"
    saved.write_bytes(b"".join(archive(read, Silent(), tag="orbit/probe:x")))
    found = judged(world, saved)
    assert found.state is State.PROVEN, found.why
    assert "no manifest" in found.why


def test_another_image_is_another_image(world: World, layout: Path, tmp_path: Path) -> None:
    rewrite(layout, config=lambda config: config["config"].update(User="1"))
    found = judged(world, layout)
    assert found.state is State.CONTRADICTED
    assert "another image" in found.why
    other = write_image(tmp_path / "other", [[file("etc/x", b"y")]])
    assert judged(world, other).state is State.CONTRADICTED
    saved = tmp_path / "saved.tar"
    saved.write_bytes(b"".join(archive(read_layout(other), Silent(), tag="x:y")))
    assert judged(world, saved).state is State.CONTRADICTED


def test_a_layer_with_one_other_byte_is_seen(world: World, layout: Path, tmp_path: Path) -> None:
    manifest = json.loads((world.place / "bundle" / "image" / "manifest.json").read_bytes())
    blob = layout / "blobs" / "sha256" / manifest["layers"][1]["digest"].removeprefix("sha256:")
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(data)
    found = judged(world, layout)
    assert found.state is State.CONTRADICTED
    assert "damaged" in found.why
    with tarfile.open(tmp_path / "image.tar", "w") as tar:
        for path in sorted(layout.rglob("*")):
            tar.add(path, str(path.relative_to(layout)), recursive=False)
    assert judged(world, tmp_path / "image.tar").state is State.CONTRADICTED


def test_a_digest_is_compared(world: World) -> None:
    for text in (world.digest, f"registry.example.com/orbit/probe@{world.digest}"):
        found = judged(world, text)
        assert found.state is State.PROVEN
        assert "not looked at" in found.why
    other = judged(world, "sha256:" + "0" * 64)
    assert other.state is State.CONTRADICTED
    assert world.digest in other.why


def test_what_is_no_image_is_no_proof(world: World, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no such layout"):
        judged(world, tmp_path / "nothing")
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").mkdir()
    for name in ("text", "empty"):
        assert judged(world, tmp_path / name).state is State.CONTRADICTED


def test_without_a_key_the_image_may_be_the_one_and_nothing_is_verified(world: World, layout: Path) -> None:
    report = verify_bundle(world.place / "bundle", Trust(), now=DECIDED, image=str(layout))
    assert claim(report, "image").state is State.PROVEN
    assert report.exit_code == 3
