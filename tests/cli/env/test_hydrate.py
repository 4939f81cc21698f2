"""orbit env hydrate: what people type and what they are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from tests.env.archives import make_archive


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_archive(tmp_path_factory.mktemp("archive"))


def test_it_prints_the_prefix(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = tmp_path / "env"
    argv = ["env", "hydrate", str(archive), "--prefix", str(prefix)]
    assert main(argv) == 0
    said = capsys.readouterr()
    assert said.out == f"{prefix}\n"
    assert "unpacked" in said.err
    assert main([*argv, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reused"] is True
    assert main(["env", "activate", str(prefix)]) == 0
    assert f"{prefix}/bin" in capsys.readouterr().out


def test_a_dry_run_changes_nothing(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["env", "hydrate", str(archive), "--prefix", str(tmp_path / "env"), "--dry-run"]
    assert main(argv) == 0
    assert "would unpack environment eeeeeeeeeeee" in capsys.readouterr().out
    assert main([*argv, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replaces"] == ""
    assert list(tmp_path.iterdir()) == []


def test_a_checkout_on_top_is_told(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "checkout"
    (root / "torch").mkdir(parents=True)
    (root / "torch" / "__init__.py").write_text("")
    (root / "pyproject.toml").write_text('[project]\nname = "torch"\nversion = "9"\n')
    argv = ["env", "hydrate", str(archive), "--prefix", str(tmp_path / "env"), "--editable", str(root)]
    assert main(argv) == 0
    assert "torch 9 from its checkout (finder), in the place of 2.11.0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "prefix", "says", "code"),
    [
        ("nothing", "env", "No such file", 2),
        (".", "env", "folder", 2),
        ("text", "env", "no zstd stream", 2),
        ("archive", "taken", "neither empty nor an environment", 4),
        ("archive", "a:b", "colon", 2),
    ],
)
def test_bad_input_has_a_way_out(
    archive: Path, tmp_path: Path, name: str, prefix: str, says: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("this is text and no archive")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    source = archive if name == "archive" else tmp_path / name
    assert main(["env", "hydrate", str(source), "--prefix", str(tmp_path / prefix)]) == code
    err = capsys.readouterr().err
    assert says in err
    assert "fix:" in err
    assert "Traceback" not in err
