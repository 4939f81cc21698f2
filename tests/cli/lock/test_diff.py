"""orbit lock diff: exit status, files and profiles, JSON by its schema, Markdown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from orbit.core.paths import checkout_root, data_root
from orbit.errors import InputError
from tests.cli.lock.test_check import call

SCHEMA = "docs/schemas/lock-diff.json"


def test_equal_profiles_give_0_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("diff", "cu128", "cu128") == 0
    assert "equal: the same" in capsys.readouterr().out


def test_a_profile_against_its_own_file_is_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "old.lock"
    shutil.copy(checkout_root() / "uv.lock", copy)
    assert call("diff", str(copy), "cu130") == 0
    assert call("diff", str(copy), str(checkout_root() / "uv.lock"), "--profile", "probe") == 0


def test_an_edited_file_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "old.lock"
    text = (checkout_root() / "uv.lock").read_text()
    old = 'name = "ray"\nversion = "2.55.1"'
    assert text.count(old) == 1
    copy.write_text(text.replace(old, 'name = "ray"\nversion = "2.54.0"'))
    assert call("diff", str(copy), "cu130") == 1
    out = capsys.readouterr().out
    assert "ray 2.54.0 -> 2.55.1" in out
    assert "Ray refuses a cluster of several versions" in out


def test_json_is_what_the_published_schema_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("diff", "cu130", "cu128", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, json.loads((data_root() / SCHEMA).read_bytes()))
    assert found["schema"] == "orbit.lock-diff/1"
    assert not found["equal"]


def test_the_published_schema_is_the_one_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("diff", "--schema") == 0
    assert (checkout_root() / SCHEMA).read_text() == capsys.readouterr().out


def test_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("diff", "cu130", "cu128", "--markdown") == 1
    out = capsys.readouterr().out
    assert out.startswith("### Lock: cu130 -> cu128")
    assert "sglang-kernel -> sgl-kernel" in out


def test_bad_use(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two locks are needed, and 1 given"):
        call("diff", "cu130")
    with pytest.raises(InputError, match="neither a profile nor a lock file"):
        call("diff", "cu130", "cu999")
    with pytest.raises(InputError, match="--json together with --markdown"):
        call("diff", "cu130", "cu128", "--json", "--markdown")
    (tmp_path / "x.lock").write_text("version = 1\n")
    with pytest.raises(InputError, match=r"x\.lock"):
        call("diff", str(tmp_path / "x.lock"), "cu130")
