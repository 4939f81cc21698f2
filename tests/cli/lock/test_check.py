"""orbit lock check: exit status, what is on stdout, findings with their fix."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import pytest

from orbit.cli import lock
from orbit.core import paths
from orbit.core.paths import checkout_root
from orbit.errors import InputError, MissingError


def call(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    lock.configure(parser)
    return lock.run(parser.parse_args(argv))


@pytest.mark.parametrize("profile", ["cu130", "probe", "cu128"])
def test_check_is_clean(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "--profile", profile) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert f"profile {profile}: clean" in err


def test_check_json_is_on_stdout_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["profile"], report["findings"]) == ("orbit.lock-report/1", "cu130", [])


def test_findings_are_shown_and_give_exit_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = checkout_root()
    for name in ("pyproject.toml", "uv.lock"):
        shutil.copy(root / name, tmp_path / name)
    for folder in ("env", "kernels/recipes"):
        shutil.copytree(root / folder, tmp_path / folder)
    policy = tmp_path / "env" / "lock-policies" / "cu130.toml"
    policy.write_text(policy.read_text().replace('version = "==13.4.1.1"', 'version = "==13.1.0.3"'))
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path)
    assert call("check") == 1
    err = capsys.readouterr().err
    assert "error: lock-cuda-release: nvidia-cublas 13.4.1.1: off CUDA 13.0" in err
    assert "fix: override it in pyproject.toml" in err
    assert "1 finding(s)" in err


def test_a_lock_of_its_own_that_is_stale_or_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = checkout_root()
    for name in ("pyproject.toml", "uv.lock"):
        shutil.copy(root / name, tmp_path / name)
    for folder in ("env", "kernels/recipes"):
        shutil.copytree(root / folder, tmp_path / folder)
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path)
    project = tmp_path / "env" / "profiles" / "cu128" / "pyproject.toml"
    project.write_text(project.read_text().replace('"sgl-kernel==0.3.21"', '"sgl-kernel==0.3.20"'))
    assert call("check", "--profile", "cu128") == 1
    err = capsys.readouterr().err
    assert "lock-stale" in err
    assert "uv lock --project env/profiles/cu128" in err
    (project.parent / "uv.lock").unlink()
    with pytest.raises(MissingError, match=r"cu128/uv\.lock: no such file"):
        call("check", "--profile", "cu128")


def test_an_unknown_profile() -> None:
    with pytest.raises(InputError, match="no profile named 'cu999'"):
        call("check", "--profile", "cu999")
