"""``orbit image inspect``: exit codes, sentences and files; the stage behind it has its own tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.core.store import Store
from tests.image.conftest import BuildSmall
from tests.image.conftest import build_small as build_small


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))


def test_inspect_prints_a_table_or_json(
    store: Store, build_small: BuildSmall, capsys: pytest.CaptureFixture[str]
) -> None:
    result = build_small(store)
    assert main(["image", "inspect", str(result.layout), "--verify"]) == 0
    text = capsys.readouterr().out
    assert result.digest in text
    assert "torch 2.11.0" in text
    assert main(["image", "inspect", str(result.layout), "--json", "--brief"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["schema"] == "orbit.image-inspect/1"
    assert [layer["name"] for layer in facts["layers"]] == [layer.name for layer in result.layers]
    assert facts["verified"] is False
    assert facts["contents"] is None


def test_a_page_is_written(
    store: Store, build_small: BuildSmall, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = build_small(store)
    assert main(["image", "inspect", str(result.layout), "--html", str(tmp_path / "page.html"), "--limit", "0"]) == 0
    assert (tmp_path / "page.html").read_bytes().startswith(b"<!doctype html>")
    assert "nvidia-cublas" in capsys.readouterr().out


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "inspect", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["$defs"]["Inspection"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no image is named"),
        (["EMPTY"], "neither index.json nor manifest.json"),
        (["EMPTY", "--limit", "-1"], "--limit -1"),
        (["EMPTY", "--brief", "--html", "x"], "--html shows what fills the image"),
        (["EMPTY", "--profile", "none"], "no profile named"),
    ],
)
def test_bad_input(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["image", "inspect", *[str(empty) if word == "EMPTY" else word for word in words]]) == 2
    assert said in capsys.readouterr().err
