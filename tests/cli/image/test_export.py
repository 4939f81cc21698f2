"""``orbit image export``: exit codes and sentences; the stage behind it has its own tests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.image.oci import read_layout
from tests.image.registry.conftest import layout as layout


def test_export_says_what_it_wrote(layout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.tar"
    argv = ["image", "export", str(layout), "--format", "oci-archive", "--out", str(out)]
    assert main([*argv, "--dry-run"]) == 0
    assert capsys.readouterr().out == f"{read_layout(layout).digest} as oci-archive into {out}; nothing was changed\n"
    assert not out.exists()
    assert main(argv) == 0
    digest = hashlib.sha256(out.read_bytes()).hexdigest()
    assert capsys.readouterr().out.startswith(f"{out}  sha256:{digest}  ")
    assert main([*argv, "--tag", "a/b:1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["name"], result["format"], result["reproducible"]) == ("a/b:1", "oci-archive", True)
    assert result["sha256"] != digest


def test_what_is_no_layout_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "export", str(tmp_path), "--format", "squashfs", "--out", str(tmp_path / "x")]) == 2
    assert "not an OCI layout" in capsys.readouterr().err


@pytest.mark.parametrize(("form", "said"), [("sif", "install Apptainer"), ("squashfs", "install squashfs-tools")])
def test_a_missing_tool_ends_with_3_and_how_to_get_it(
    layout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: str,
    said: str,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    for more in ([], ["--dry-run"]):
        assert main(["image", "export", str(layout), "--format", form, "--out", str(tmp_path / "x"), *more]) == 3
        assert said in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_folder_in_the_way_is_bad_input(layout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "export", str(layout), "--format", "oci-archive", "--out", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_a_dry_run_answers_in_json_and_refuses_what_the_run_would(
    layout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["image", "export", str(layout), "--format", "oci-archive", "--dry-run"]
    assert main([*argv, "--out", str(tmp_path / "x"), "--tag", "a/b:1", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["name"], plan["image"], plan["out"]) == ("a/b:1", read_layout(layout).digest, str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()
    assert main([*argv, "--out", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_a_name_no_engine_takes_is_bad_input(layout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["image", "export", str(layout), "--format", "docker-archive", "--out", str(tmp_path / "x")]
    for more in ([], ["--dry-run"]):
        assert main([*argv, "--tag", "Bad Name", *more]) == 2
        assert "'Bad Name': not NAME:TAG" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
