"""``orbit image pull``: exit codes and sentences; the stage behind it has its own tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.core.amounts import format_bytes
from orbit.image.oci import read_layout
from orbit.image.registry.documents import DOCKER_CONFIG, DOCKER_MANIFEST
from tests.image.registry.conftest import _nobody as _nobody
from tests.image.registry.conftest import layout as layout
from tests.image.registry.conftest import registry as registry
from tests.image.registry.fake import FakeRegistry


def size_of(layout: Path) -> str:
    """All blobs of a layout but its manifest, for people."""
    image = read_layout(layout)
    return format_bytes(image.manifest.config.size + sum(layer.size for layer in image.layers))


def test_pull_says_what_came(
    registry: FakeRegistry, layout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["image", "push", str(layout), f"{registry.host}/a:1"])
    capsys.readouterr()
    got = tmp_path / "got"
    argv = ["image", "pull", f"{registry.host}/a:1", "--out", str(got)]
    assert main([*argv, "--dry-run"]) == 0
    assert "3 of 3 blobs" in capsys.readouterr().out
    assert not got.exists()
    assert main(argv) == 0
    assert capsys.readouterr().out == f"{got}  {read_layout(layout).digest}  ({size_of(layout)} came)\n"
    assert main([*argv, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert ({blob["state"] for blob in result["blobs"]}, result["moved_bytes"]) == ({"there"}, 0)


def test_a_docker_manifest_is_mentioned(
    registry: FakeRegistry, layout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["image", "push", str(layout), f"{registry.host}/a:1"])
    document = json.loads(registry.manifests["a", "1"][1])
    document["mediaType"], document["config"]["mediaType"] = DOCKER_MANIFEST, DOCKER_CONFIG
    digest = registry.put_manifest("a", "2", document, DOCKER_MANIFEST)
    capsys.readouterr()
    assert main(["image", "pull", f"{registry.host}/a:2", "--out", str(tmp_path / "got")]) == 0
    assert f"docker's manifest {digest}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "more", "status", "said"),
    [
        ("{host}/nothing:1", (), 3, "404 MANIFEST_UNKNOWN"),
        ("{host}/a:1", ("--platform", "amd64"), 2, "not a platform"),
        ("{host}/a@sha256:12", (), 2, "is not sha256"),
        ("nothing", (), 2, "does not begin with the host"),
        ("127.0.0.1:1/a", (), 3, "Connection refused"),
    ],
)
def test_what_is_wrong_is_said_once(
    registry: FakeRegistry,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    more: tuple[str, ...],
    status: int,
    said: str,
) -> None:
    argv = ["image", "pull", name.format(host=registry.host), "--out", str(tmp_path / "got"), *more]
    assert main(argv) == status
    err = capsys.readouterr().err
    assert said in err
    assert err.count("orbit: error:") == err.count("fix:") == 1
    assert not (tmp_path / "got").exists()
    assert not (tmp_path / ".got.pull").exists()


def test_a_place_that_holds_something_else(
    registry: FakeRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "got").write_text("x")
    assert main(["image", "pull", f"{registry.host}/a:1", "--out", str(tmp_path / "got")]) == 2
    assert "exists and is not an OCI layout" in capsys.readouterr().err


def test_a_store_that_is_none_is_said_before_anything_comes(
    registry: FakeRegistry,
    layout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["image", "push", str(layout), f"{registry.host}/a:1"])
    file = tmp_path / "file"
    file.write_text("no folder")
    monkeypatch.setenv("ORBIT_CACHE", str(file))
    assert main(["image", "pull", f"{registry.host}/a:1", "--out", str(tmp_path / "got")]) == 2
    assert "ORBIT_CACHE" in capsys.readouterr().err
    assert not (tmp_path / "got").exists()


def test_a_store_that_cannot_be_written_takes_nothing_from_a_pull(
    registry: FakeRegistry, layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["image", "push", str(layout), f"{registry.host}/a:1"])
    monkeypatch.setenv("ORBIT_CACHE", "/proc/nothing-can-be-made-here")
    assert main(["image", "pull", f"{registry.host}/a:1", "--out", str(tmp_path / "got")]) == 0
    assert read_layout(tmp_path / "got").digest == read_layout(layout).digest
