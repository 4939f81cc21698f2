"""orbit qualify record: options, dry run, and the status that goes with the verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.qualify import here
from tests.qualify.toy import Toy, push


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy()
    monkeypatch.setattr(here, "start_process", made)
    return made


def test_a_passed_record_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.json"
    assert main(["qualify", "record", "--device", "cpu", "--out", str(out)]) == 0
    assert "PASSED: 4 proven" in capsys.readouterr().out
    assert main(["qualify", "record", "--device", "cpu", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(out.read_text())


def test_the_status_is_the_verdict(tmp_path: Path, toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["qualify", "record", "--device", "cpu", "--out", str(tmp_path / "r.json")]
    toy.skipped = {"sdpa": "none here"}
    assert main(words) == 3
    toy.skipped, toy.twist, toy.only = {}, {("forward", "scaled"): push}, "sdpa"
    assert main(words) == 1
    assert main([*words, "--repeats", "0"]) == 2
    assert "--repeats 0" in capsys.readouterr().err


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.json"
    assert main(["qualify", "record", "--out", str(out), "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["definition"].startswith("tiny ")
    assert main(["qualify", "record", "--out", str(out), "--dry-run"]) == 0
    assert not out.exists()


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["qualify", "record", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["$ref"] == "#/$defs/Qualification"
