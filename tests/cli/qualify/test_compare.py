"""orbit qualify compare: the status says whether two records are the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from tests.qualify.made import record
from tests.qualify.toy import Toy, push


def test_equal_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "a.json")
    record(tmp_path / "b.json")
    assert main(["qualify", "compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    assert "PASSED: 4 equal" in capsys.readouterr().out


def test_a_difference_is_status_1_and_names_the_operation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "a.json")
    record(tmp_path / "b.json", Toy(twist={("decode", "shifted"): push}))
    words = ["qualify", "compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    assert main(words) == 1
    assert "first: linear at decode shifted" in capsys.readouterr().out
    assert main([*words, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["verdict"] == "failed"
    assert said["cases"][0]["first"]["name"] == "shifted"


def test_nothing_proven_is_status_3(tmp_path: Path) -> None:
    record(tmp_path / "a.json", repeats=1)
    assert main(["qualify", "compare", str(tmp_path / "a.json"), str(tmp_path / "a.json")]) == 3


def test_what_cannot_be_compared_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("{}")
    assert main(["qualify", "compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 2
    assert main(["qualify", "compare", str(tmp_path / "a.json")]) == 2
    (tmp_path / "a.tensors").unlink()
    assert main(["qualify", "compare", str(tmp_path / "a.json"), str(tmp_path / "a.json")]) == 2
    assert "not there" in capsys.readouterr().err


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["qualify", "compare", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["$ref"] == "#/$defs/Comparison"
