"""Exports: one file, whole or not at all, equal for equal images."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import InputError, MissingError, RefusedError
from orbit.image.damage import DamagedImage
from orbit.image.export import FORMATS, Format, formats
from orbit.image.export.formats import ExportResult, check_export, export_image, image_name
from orbit.image.oci import TAR_BYTES_KEY, read_layout
from tests.image.test_foreign import need
from tests.image.test_oci import damage
from tests.writers.tiny_image import file, rewrite, write_image

ARCHIVES: list[Format] = ["oci-archive", "docker-archive"]


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    labels = {"Labels": {"org.opencontainers.image.title": "orbit/x"}}
    return write_image(tmp_path / "layout", [[file("a", b"a" * 50_000)], [file("b", b"b")]], config=labels)


def export(layout: Path, form: Format, out: Path, name: str = "") -> ExportResult:
    return export_image(layout, form, out, progress=Silent(), name=name)


def need_tool(form: Format) -> None:
    try:
        check_export(form)
    except MissingError as error:
        pytest.skip(error.what)


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_told_about_the_file_is_so(layout: Path, tmp_path: Path, form: Format) -> None:
    need_tool(form)
    result = export(layout, form, tmp_path / "out" if form == "sif" else tmp_path / "out.x")
    data = Path(result.out).read_bytes()
    assert (result.bytes, result.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert result.image == read_layout(layout).digest
    assert result.name == ("orbit/x:latest" if form in ARCHIVES else "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layout", Path(result.out).name]


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "sif"])
def test_equal_images_give_equal_files(layout: Path, tmp_path: Path, form: Format) -> None:
    need_tool(form)
    shutil.copytree(layout, tmp_path / "copy")
    one, two = export(layout, form, tmp_path / "one"), export(tmp_path / "copy", form, tmp_path / "two")
    assert one.sha256 == two.sha256
    assert one.reproducible


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "sif"])
def test_a_damaged_layer_leaves_the_older_file(layout: Path, tmp_path: Path, form: Format) -> None:
    need_tool(form)
    image = read_layout(layout)
    damage(image.blob(image.layers[1]))
    (tmp_path / "out").write_text("older")
    with pytest.raises(DamagedImage):
        export(layout, form, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layout", "out"]


@pytest.mark.parametrize("form", ARCHIVES)
def test_a_disk_that_fills_up_leaves_the_older_file(
    layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Format
) -> None:
    (tmp_path / "out").write_text("older")

    def full(*_arguments: object, **_more: object) -> Iterator[bytes]:
        yield b"some"
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(formats, "archive", full)
    monkeypatch.setattr(formats, "oci_archive", full)
    with pytest.raises(OSError, match="No space left"):
        export(layout, form, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layout", "out"]
    assert (tmp_path / "out").read_text() == "older"


def test_leftovers_of_killed_runs_go_and_those_of_living_ones_stay(layout: Path, tmp_path: Path) -> None:
    (tmp_path / ".out.999999999.partial").write_text("x")
    (tmp_path / f".out.{os.getppid()}.partial").write_text("x")
    export(layout, "oci-archive", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".out.{os.getppid()}.partial", "layout", "out"]


def test_a_folder_in_the_way_and_no_room(layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="is a folder"):
        export(layout, "oci-archive", tmp_path)
    monkeypatch.setattr("orbit.core.files.shutil.disk_usage", lambda _path: type("Usage", (), {"free": 10})())
    with pytest.raises(RefusedError, match="the docker-archive needs"):
        export(layout, "docker-archive", tmp_path / "out")


def test_a_missing_tool_is_told_before_anything_is_written(
    layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    for form in ("squashfs", "sif"):
        with pytest.raises(MissingError, match="installed"):
            export(layout, form, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layout"]


def test_an_image_without_a_title_has_a_name(tmp_path: Path) -> None:
    assert image_name(read_layout(write_image(tmp_path / "x", [[file("a")]]))) == "orbit/image:latest"


def test_layers_that_do_not_say_their_size_are_counted(layout: Path, tmp_path: Path) -> None:
    before = export(layout, "docker-archive", tmp_path / "one")
    rewrite(layout, manifest=lambda manifest: manifest["layers"][0]["annotations"].pop(TAR_BYTES_KEY))
    assert export(layout, "docker-archive", tmp_path / "two").sha256 == before.sha256


@pytest.mark.integration
@pytest.mark.docker
def test_docker_loads_the_archive(layout: Path, tmp_path: Path, docker_engine: str) -> None:
    client = need("docker")
    export(layout, "docker-archive", tmp_path / "x.tar", "orbit-test/export:1")
    try:
        subprocess.run([client, "load", "-q", "-i", tmp_path / "x.tar"], capture_output=True, check=True)
        done = subprocess.run(
            [client, "image", "inspect", "--format", "{{.Id}}", "orbit-test/export:1"], capture_output=True, check=True
        )
        assert done.stdout.decode().strip() == read_layout(layout).manifest.config.digest
    finally:
        subprocess.run([client, "image", "rm", "orbit-test/export:1"], capture_output=True, check=False)


@pytest.mark.integration
@pytest.mark.parametrize("form", ARCHIVES)
def test_skopeo_reads_the_archive(layout: Path, tmp_path: Path, form: Format) -> None:
    skopeo = need("skopeo")
    export(layout, form, tmp_path / "x.tar")
    source = f"{form}:{tmp_path / 'x.tar'}"
    subprocess.run(
        [skopeo, "--insecure-policy", "copy", "--quiet", source, f"oci:{tmp_path / 'back'}"],
        capture_output=True, check=True,
    )  # fmt: skip
    assert read_layout(tmp_path / "back").config.rootfs == read_layout(layout).config.rootfs
