"""``orbit doctor`` as it is typed: exit status, JSON, report, catalogue."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest

from orbit.cli import main
from orbit.core.findings import Skipped
from orbit.core.paths import checkout_root
from orbit.doctor.facts import Facts
from tests.doctor.look.test_prefix import environment

ERROR = "KeyError: 'getpwuid(): uid not found: 12345'"


def test_an_error_is_explained_with_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--explain", ERROR]) == 1
    said = capsys.readouterr().out
    assert "The user has no name" in said
    assert "orbit-entrypoint" in said


def test_what_is_unknown_is_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--explain", "all is well"]) == 0
    assert "No known cause" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--explain", ""], "empty"),
        (["--explain", "gone.log"], "no such file"),
        (["--explain", ERROR, "--deep"], "two calls"),
        (["--about", "shared-memory-to-small"], "shared-memory-too-small"),
        (["--prefix", "/nowhere"], "not an installed environment"),
        (["--report", "/nowhere/at/all.json"], "no folder to write it into"),
    ],
)
def test_bad_input_is_status_2(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *arguments]) == 2
    assert word in capsys.readouterr().err


def test_json_is_the_diagnosis(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "--explain", ERROR]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["causes"][0]["symptom"]) == ("orbit.doctor/1", "user-without-name")


def test_a_broken_environment_is_found_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789012345678901234567890123456789")
    site = environment(tmp_path / "env")
    (site / "good/a.py").symlink_to(tmp_path / "gone.py")
    arguments = ["doctor", "--json", "--prefix", str(tmp_path / "env"), "--report", str(tmp_path / "report.json")]
    assert main(arguments) == 1
    causes = {cause["symptom"]: cause for cause in json.loads(capsys.readouterr().out)["causes"]}
    assert "good/a.py" in causes["dangling-links"]["evidence"][0]
    report = (tmp_path / "report.json").read_text(encoding="utf-8")
    assert "dangling-links" in report
    assert "0123456789012345678901234567890123456789" not in report


def test_the_schema_is_published_and_every_answer_keeps_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--schema"]) == 0
    schema = capsys.readouterr().out
    published = checkout_root() / "docs" / "schemas" / "doctor.json"
    assert published.read_text(encoding="utf-8") == schema, "orbit doctor --schema > docs/schemas/doctor.json"
    for arguments in (["--explain", ERROR], ["--explain", "all is well"], []):
        main(["doctor", "--json", *arguments])
        jsonschema.validate(json.loads(capsys.readouterr().out), json.loads(schema))


def test_a_machine_where_nothing_can_be_looked_at_is_status_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    skipped = Facts(skipped=(Skipped(what="mounts", reason="Permission denied"),))
    monkeypatch.setattr("orbit.doctor.look.gather.gather", lambda *_a, **_k: skipped)
    assert main(["doctor"]) == 3
    assert "not looked at: mounts: Permission denied" in capsys.readouterr().out


def test_one_entry_and_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--about", "shared-memory-too-small"]) == 0
    assert "--shm-size=16g" in capsys.readouterr().out
    assert main(["doctor", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 100


def test_the_quick_look_loads_neither_the_stack_nor_the_audit_of_all_files(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = set(sys.modules)  # other tests of this process may have loaded them
    assert main(["doctor"]) in (0, 1)
    assert "looked at in" in capsys.readouterr().out
    assert not {"torch", "ray"} & (sys.modules.keys() - before)
