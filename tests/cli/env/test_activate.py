"""orbit env activate: what people type and what they get."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.core.records import dump_json
from orbit.env.record import RECORD_PATH, SCHEMA, EnvironmentRecord


def test_activate_prints_what_the_function_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = EnvironmentRecord(
        schema=SCHEMA, identity="e" * 64, profile="p", lock="0", prefix="/opt/orbit", python="3.12.1", interpreter="0",
        system_libraries=(), distributions=(), skipped=(), contested=(), uncompiled=(),
    )  # fmt: skip
    dump_json(tmp_path / RECORD_PATH, record)
    assert main(["env", "activate", str(tmp_path), "--state", "/s", "--json"]) == 0
    names = {variable["name"] for variable in json.loads(capsys.readouterr().out)}
    assert {"PATH", "TRITON_CACHE_DIR", "LD_LIBRARY_PATH"} <= names
    assert main(["env", "activate", str(tmp_path), "--state", "/s"]) == 0
    assert "export TRITON_CACHE_DIR=/s/cache/eeeeeeeeeeee/triton\n" in capsys.readouterr().out
    assert main(["env", "activate", str(tmp_path / "nothing")]) == 2
