"""``orbit image inspect``: exit codes and sentences; the stage behind it has its own tests."""

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


def test_what_is_no_layout_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "inspect", str(tmp_path)]) == 2
    assert "not an OCI layout" in capsys.readouterr().err
