"""orbit.env.record: an environment's record is closed, and one of another version is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.core.records import dump_json
from orbit.env.record import RECORD_PATH, SCHEMA, Distribution, EnvironmentRecord, read_environment
from orbit.errors import InputError

RECORD = EnvironmentRecord(
    schema=SCHEMA, identity="a", profile="p", lock="b", prefix="/opt/orbit", python="3.12.1", interpreter="c",
    system_libraries=("libc.so.6",),
    distributions=(Distribution(name="n", version="1", origin="index", wheel="n-1.whl", sha256="d"),),
    skipped=(), contested=(), uncompiled=(),
)  # fmt: skip


def test_round_trip(tmp_path: Path) -> None:
    dump_json(tmp_path / RECORD_PATH, RECORD)
    assert read_environment(tmp_path) == RECORD


@pytest.mark.parametrize(
    ("edit", "says"),
    [({"schema": 99}, "schema 99 is not known"), ({"more": 1}, "unknown field"), ({"lock": 1}, "Expected `str`")],
)
def test_other_shapes_are_refused(tmp_path: Path, edit: dict[str, object], says: str) -> None:
    dump_json(tmp_path / RECORD_PATH, RECORD)
    path = tmp_path / RECORD_PATH
    path.write_text(json.dumps(json.loads(path.read_text()) | edit))
    with pytest.raises(InputError, match=says):
        read_environment(tmp_path)
