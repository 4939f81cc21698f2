"""``orbit image push``: exit codes and sentences; the stage behind it has its own tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.core.amounts import format_bytes
from orbit.image.oci import read_layout
from tests.image.registry.conftest import _nobody as _nobody
from tests.image.registry.conftest import layout as layout
from tests.image.registry.conftest import registry as registry
from tests.image.registry.fake import FakeRegistry


def size_of(layout: Path) -> str:
    """All blobs of a layout but its manifest, for people."""
    image = read_layout(layout)
    return format_bytes(image.manifest.config.size + sum(layer.size for layer in image.layers))


def test_push_says_what_travelled_and_by_what_to_pull(
    registry: FakeRegistry, layout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", "push", str(layout), f"{registry.host}/a:1"]) == 0
    said = capsys.readouterr()
    assert said.out == f"{registry.host}/a:1  {read_layout(layout).digest}  ({size_of(layout)} sent)\n"
    assert said.err.count("moved") == 3
    assert main(["image", "push", str(layout), f"{registry.host}/b:1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {blob["state"] for blob in result["blobs"]} == {"mounted"}
    assert (result["moved_bytes"], result["digest"]) == (0, read_layout(layout).digest)


def test_a_named_repository_is_asked_for_blobs(
    registry: FakeRegistry, layout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = read_layout(layout)
    registry.put_blob("old/place", image.blob(image.layers[1]).read_bytes())
    argv = ["image", "push", str(layout), f"{registry.host}/a:1", "--mount-from", "old/place", "--json"]
    assert main(argv) == 0
    states = {blob["name"]: blob["state"] for blob in json.loads(capsys.readouterr().out)["blobs"]}
    assert states == {"0": "moved", "1": "mounted", "config": "moved"}
    assert main([*argv[:4], "--mount-from", "Not A Name"]) == 2


def test_a_dry_run_says_what_would_travel(
    registry: FakeRegistry, layout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", "push", str(layout), f"{registry.host}/a:1", "--dry-run"]) == 0
    assert "3 of 3 blobs" in capsys.readouterr().out
    assert main(["image", "push", str(layout), f"{registry.host}/a:1", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["moved_bytes"] > 300_000
    assert (registry.blobs, registry.manifests) == ({}, {})


@pytest.mark.parametrize(
    ("where", "status", "said"),
    [
        ("orbit:1", 2, "does not begin with the host of a registry"),
        ("127.0.0.1:1/a:1", 3, "Connection refused"),
        ("registry.invalid/a:1", 3, "no such host"),
    ],
)
def test_what_is_wrong_is_said_once(
    layout: Path, capsys: pytest.CaptureFixture[str], where: str, status: int, said: str
) -> None:
    assert main(["image", "push", str(layout), where]) == status
    err = capsys.readouterr().err
    assert said in err
    assert err.count("orbit: error:") == err.count("fix:") == 1


def test_bad_arguments(
    registry: FakeRegistry, layout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", "push", str(tmp_path), f"{registry.host}/a:1"]) == 2
    assert "not an OCI layout" in capsys.readouterr().err
    assert main(["image", "push", str(layout), f"{registry.host}/a:1", "--jobs", "0"]) == 2
    assert "--jobs 0" in capsys.readouterr().err


def test_a_refused_login_ends_with_4(registry: FakeRegistry, layout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    registry.auth = "basic"
    assert main(["image", "push", str(layout), f"{registry.host}/a:1"]) == 4
    assert f"docker login {registry.host}" in capsys.readouterr().err


def test_ctrl_c_ends_a_push_that_waits_for_its_registry(registry: FakeRegistry, layout: Path) -> None:
    reached, end = threading.Event(), threading.Event()
    answer = registry.RequestHandlerClass._patch  # type: ignore[attr-defined]

    def stuck(self: object, *args: object) -> None:
        reached.set()
        end.wait(60)
        answer(self, *args)

    registry.RequestHandlerClass = type("Stuck", (registry.RequestHandlerClass,), {"_patch": stuck})
    argv = [sys.executable, "-m", "orbit", "image", "push", str(layout), f"{registry.host}/a:1"]
    child = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert reached.wait(60)
        child.send_signal(signal.SIGINT)
        _out, err = child.communicate(timeout=30)
    finally:
        end.set()
        child.kill()
    assert child.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert registry.manifests == {}
