"""The OCI archive: its members, its checks, and other people's readers."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.image.damage import DamagedImage
from orbit.image.export.archive import oci_archive
from orbit.image.oci import REF_KEY, read_layout
from tests.image.test_foreign import need
from tests.image.test_oci import damage
from tests.writers.tiny_image import file, write_image


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    return write_image(tmp_path / "layout", [[file("a", b"a" * 50_000)], [file("b", b"b")]])


def stream(layout: Path, name: str = "x:1") -> bytes:
    return b"".join(oci_archive(read_layout(layout), {REF_KEY: name}, Silent()))


def test_it_is_the_layout_under_a_name(layout: Path, tmp_path: Path) -> None:
    data = stream(layout)
    assert len(data) % 512 == 0
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path / "out", filter="data")
    assert names == [*sorted(names[:-2]), "index.json", "oci-layout"]
    assert read_layout(tmp_path / "out").digest == read_layout(layout).digest
    (described,) = json.loads((tmp_path / "out" / "index.json").read_text())["manifests"]
    assert described["annotations"] == {REF_KEY: "x:1"}


def test_equal_images_give_equal_bytes(layout: Path, tmp_path: Path) -> None:
    again = write_image(tmp_path / "again", [[file("a", b"a" * 50_000)], [file("b", b"b")]])
    (again / "blobs" / "sha256" / ("f" * 64)).write_bytes(b"of nobody")
    assert stream(layout) == stream(again)
    assert stream(layout) != stream(layout, "x:2")


@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_blob_is_told_before_the_end(layout: Path, number: int) -> None:
    image = read_layout(layout)
    damage(image.blob(image.layers[number]))
    with pytest.raises(DamagedImage, match="is damaged"):
        stream(layout)


@pytest.mark.integration
def test_skopeo_reads_it(layout: Path, tmp_path: Path) -> None:
    skopeo = need("skopeo")
    (tmp_path / "x.tar").write_bytes(stream(layout))
    done = subprocess.run([skopeo, "inspect", f"oci-archive:{tmp_path}/x.tar"], capture_output=True, check=True)
    assert json.loads(done.stdout)["Digest"] == read_layout(layout).digest
