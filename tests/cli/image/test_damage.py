"""A damaged image, and what is no layout: one sentence and one exit status, whichever command is asked."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.cli.image import layout_named
from orbit.errors import ExitCode, InputError
from orbit.image.oci import read_layout
from orbit.image.smoke import run as smoke
from tests.image.registry.conftest import _nobody as _nobody
from tests.image.registry.conftest import registry as registry
from tests.image.registry.fake import FakeRegistry
from tests.image.test_oci import damage
from tests.writers.tiny_image import file, write_image

SENTENCE = (
    r"orbit: error: {layout}: (layer \S+ \({digest}\)|{digest}) is damaged: [^\n]+\n"
    r"  fix: remove that image and get it again"
)


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """A layout whose second layer is damaged, and that layer's digest."""
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    layout = write_image(tmp_path / "layout", [[file("a", b"a" * 5000)], [file("b", b"b" * 5000)]])
    found = read_layout(layout)
    damage(found.blob(found.layers[1]))
    return layout, found.layers[1].digest


def words_of(command: str, layout: Path, tmp_path: Path, registry: FakeRegistry) -> list[str]:
    out = str(tmp_path / "out")
    return {
        "push": ["push", str(layout), f"{registry.host}/a:1"],
        "oci-archive": ["export", str(layout), "--format", "oci-archive", "--out", out],
        "docker-archive": ["export", str(layout), "--format", "docker-archive", "--out", out],
        "verify": ["inspect", str(layout), "--brief", "--verify"],
        "inspect": ["inspect", str(layout)],
        "sbom": ["sbom", str(layout)],
        "diff": ["diff", str(layout), str(layout), "--whole"],
        "podman": ["load", str(layout), "--engine", "podman"],
        "smoke": ["smoke", str(layout), "--profile", "probe", "--engine", "unshare"],
    }[command]


COMMANDS = ("push", "oci-archive", "docker-archive", "verify", "inspect", "sbom", "diff", "podman", "smoke")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_the_same_of_a_damaged_layer(
    command: str, image: tuple[Path, str], tmp_path: Path, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    layout, digest = image
    if command == "podman":
        tool = tmp_path / "bin" / "podman"
        tool.parent.mkdir()
        tool.write_text('#!/bin/sh\ncase "$1" in info) echo 5;; *) exit 125;; esac\n')
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    choice = smoke.Choice(name="unshare", program=Path("/bin/true"), version="1", real_ids=True)
    monkeypatch.setitem(smoke.FINDERS, "unshare", (lambda: choice,))
    assert main(["image", *words_of(command, layout, tmp_path, registry)]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert re.search(SENTENCE.format(layout=re.escape(str(layout)), digest=digest), said), said
    assert not (tmp_path / "out").exists()
    assert registry.manifests == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_the_same_of_a_damaged_document(
    command: str, image: tuple[Path, str], tmp_path: Path, registry: FakeRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, _ = image
    config = read_layout(layout).manifest.config
    damage(layout / "blobs" / "sha256" / config.hex)
    assert main(["image", *words_of(command, layout, tmp_path, registry)]) == ExitCode.USAGE
    assert f"{layout}: {config.digest} is damaged: its content is not what its digest says" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["push", "oci-archive", "podman", "smoke"])
def test_an_archive_is_refused_with_the_way_to_a_layout(
    command: str, tmp_path: Path, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    archive = tmp_path / "image.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(write_image(tmp_path / "layout", [[file("a")]]), ".")
    assert main(["image", *words_of(command, archive, tmp_path, registry)]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert f"{archive}: a file, and this command needs an OCI layout" in said
    assert "tar -xf FILE -C DIR" in said


def test_what_the_way_out_says_makes_a_layout(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "layout", [[file("a")]])
    with tarfile.open(tmp_path / "image.tar", "w") as tar:
        tar.add(layout, ".")
    with tarfile.open(tmp_path / "image.tar") as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    assert read_layout(tmp_path / "unpacked").digest == read_layout(layout).digest


def test_the_names_that_the_audit_knows_are_known_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert layout_named("oci:/a/b") == Path("/a/b")
    assert layout_named("dist/image-cu130") == Path("dist/image-cu130")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "oci:x").mkdir()
    assert layout_named("oci:x") == Path("oci:x")
    with pytest.raises(InputError, match="needs an OCI layout") as caught:
        layout_named("podman:localhost/a:1")
    assert caught.value.fix == "make one: skopeo copy containers-storage:localhost/a:1 oci:DIR"
