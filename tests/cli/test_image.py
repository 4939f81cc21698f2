"""``orbit image``: exit codes and sentences; the stages behind it have their own tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.core.store import Store
from tests.image.conftest import BuildSmall
from tests.image.conftest import build_small as build_small


def test_inspect_prints_a_table_or_json(
    store: Store, build_small: BuildSmall, capsys: pytest.CaptureFixture[str]
) -> None:
    result = build_small(store)
    assert main(["image", "inspect", str(result.layout), "--verify"]) == 0
    text = capsys.readouterr().out
    assert result.digest in text
    assert "torch" in text
    assert main(["image", "inspect", str(result.layout), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [layer["name"] for layer in facts["layers"]] == [layer.name for layer in result.layers]
    assert facts["verified"] is False


@pytest.mark.parametrize("action", ["inspect", "load"])
def test_what_is_no_layout_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str) -> None:
    assert main(["image", action, str(tmp_path)]) == 2
    assert "not an OCI layout" in capsys.readouterr().err


def test_without_an_engine_load_ends_with_3(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = build_small(store)
    monkeypatch.setenv("ORBIT_DOCKER", "/nonexistent/docker")
    assert main(["image", "load", str(result.layout)]) == 3
    assert "fix: start a docker engine" in capsys.readouterr().err


def test_a_dry_run_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    assert main(["image", "build", "--profile", "probe", "--dry-run"]) == 0
    assert "base, interpreter, kernels, stack, orbit" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_profile_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "build", "--profile", "nonesuch"]) == 2
    assert "known profiles" in capsys.readouterr().err
