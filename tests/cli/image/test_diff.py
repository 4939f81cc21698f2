"""``orbit image diff``: exit codes, text and JSON; the stage behind it has its own tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from tests.image.diff.material import base, image, left_layers


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))


def test_status_says_whether_they_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = str(image(tmp_path / "left", left_layers()))
    right = str(image(tmp_path / "right", [base(b"9"), *left_layers()[1:]]))
    assert main(["image", "diff", left, left]) == 0
    assert capsys.readouterr().out.endswith("equal\n")
    assert main(["image", "diff", left, right]) == 1
    assert "libfoo (Debian) 1.0-1 -> 9" in capsys.readouterr().out
    assert main(["image", "diff", left, right, "--json", "--quick"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "orbit.image-diff/1"
    assert found["counts"] == {"changed": 2}


def test_lists_are_as_long_as_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = str(image(tmp_path / "left", left_layers()))
    right = str(image(tmp_path / "right", left_layers()[:1]))
    for words, shown in ((["--limit", "1"], False), (["--files"], True), (["--whole", "--limit", "0"], False)):
        assert main(["image", "diff", left, right, *words]) == 1
        assert ("rich/same.py" in capsys.readouterr().out) is shown


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "diff", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["$defs"]["ImageDiff"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "are needed"),
        (["EMPTY"], "are needed"),
        (["EMPTY", "EMPTY"], "neither index.json nor manifest.json"),
        (["EMPTY", "EMPTY", "--limit", "-1"], "--limit -1"),
        (["EMPTY", "none"], "neither index.json nor manifest.json"),
    ],
)
def test_bad_input(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["image", "diff", *[str(empty) if word == "EMPTY" else word for word in words]]) == 2
    assert said in capsys.readouterr().err
