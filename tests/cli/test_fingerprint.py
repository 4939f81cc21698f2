"""``orbit fingerprint``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.core.records import dump_json
from tests.launch.fingerprint.prints import sound


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Three nodes, one of which differs."""
    for name, one in (("a", sound()), ("b", sound(lock="x")), ("c", sound())):
        dump_json(tmp_path / f"{name}.json", one)
    return [str(tmp_path / f"{name}.json") for name in "abc"]


def test_equal_files_agree(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fingerprint", files[0], files[2]]) == 0
    assert capsys.readouterr().out == f"all 2 agree: {sound().agreed[:12]}\n"


def test_a_difference_is_printed_and_is_the_status(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fingerprint", *files]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("--- 2 nodes: ")
    assert out[1] == f"+++ 1 node: {files[1]}"
    assert out[2:] == ["  lock", "- " + "3" * 64, "+ x"]
    assert main(["fingerprint", "--json", *files]) == 1
    said = json.loads(capsys.readouterr().out)
    assert [len(group["hosts"]) for group in said["groups"]] == [2, 1]


def test_this_node_and_what_it_wrote_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fingerprint", "--json"]) == 0
    (tmp_path / "here.json").write_text(capsys.readouterr().out)
    assert main(["fingerprint", str(tmp_path / "here.json")]) == 0
    assert capsys.readouterr().out.startswith("all 2 agree: ")
    assert main(["fingerprint", "--short"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("orbit fingerprint ")
    assert text.count("\n") == 1
    assert main(["fingerprint"]) == 0
    assert "interpreter" in capsys.readouterr().out


def test_bad_usage_is_told(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fingerprint", "--loaded", *files]) == 2
    assert main(["fingerprint", str(tmp_path / "none.json")]) == 2
    assert main(["fingerprint", "--prefix", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "several files" in err
    assert "no such file" in err
    assert "no environment" in err


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fingerprint", "--schema"]) == 0
    assert "glibc" in json.dumps(json.loads(capsys.readouterr().out))
