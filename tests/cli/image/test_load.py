"""``orbit image load``: exit codes and sentences; the stage behind it has its own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.cli import main
from orbit.core.store import Store
from tests.image.conftest import BuildSmall
from tests.image.conftest import build_small as build_small


def test_what_is_no_layout_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "load", str(tmp_path)]) == 2
    assert "not an OCI layout" in capsys.readouterr().err


def test_without_an_engine_load_ends_with_3(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = build_small(store)
    monkeypatch.setenv("ORBIT_DOCKER", "/nonexistent/docker")
    assert main(["image", "load", str(result.layout)]) == 3
    assert "fix: start a docker engine" in capsys.readouterr().err


def test_no_engine_at_all_ends_with_3_and_every_reason(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = build_small(store)
    monkeypatch.delenv("ORBIT_DOCKER", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert main(["image", "load", str(result.layout)]) == 3
    err = capsys.readouterr().err
    assert "no docker client is installed; podman: its client is not installed; containerd" in err
    assert main(["image", "load", str(result.layout), "--engine", "podman", "--dry-run"]) == 3
    assert "fix: start podman" in capsys.readouterr().err
