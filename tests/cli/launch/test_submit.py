"""``orbit launch submit``: judged first, refused while the last one runs, silent about secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.cli.launch.submit import judged
from orbit.errors import RefusedError
from orbit.launch.render import File
from orbit.launch.submit.model import JobStatus, Phase, load_ref
from tests.cli.launch.jobs import RECIPE, Memory


def test_a_job_is_submitted_and_found_again(
    memory: Memory, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["launch", "submit", *words]) == 0
    assert "demo: submitted to docker as id-7" in capsys.readouterr().out
    assert load_ref("demo").site == "here"


def test_a_job_that_has_not_ended_is_not_replaced(
    memory: Memory, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["launch", "submit", *words]) == 0
    assert main(["launch", "submit", *words]) == 4
    assert "demo: a job of this name is running (docker id-7, site here)" in capsys.readouterr().err
    memory.answer = JobStatus(phase=Phase.FAILED, state="END", exit_code=1)
    assert main(["launch", "submit", *words]) == 0
    assert len(memory.secrets) == 2


def test_secrets_are_handed_over_and_told_by_name_alone(
    memory: Memory,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE + 'secrets = ["A_KEY"]\n')
    monkeypatch.delenv("A_KEY", raising=False)
    assert main(["launch", "submit", *words]) == 2
    assert "secrets without a value in this shell: A_KEY" in capsys.readouterr().err
    monkeypatch.setenv("A_KEY", "do-not-tell")
    assert main(["launch", "submit", "--dry-run", "--json", *words]) == 0
    said = capsys.readouterr().out
    assert json.loads(said)["secrets"] == ["A_KEY"]
    assert memory.secrets == []
    assert main(["launch", "submit", "--json", *words]) == 0
    assert memory.secrets == [{"A_KEY": "do-not-tell"}]
    kept = "".join(path.read_text() for path in (tmp_path / "store/launch/demo").iterdir())
    assert "do-not-tell" not in said + capsys.readouterr().out + kept


def test_a_dry_run_asks_and_writes_nothing(
    memory: Memory, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["launch", "submit", "--dry-run", *words]) == 0
    assert "files: demo.sh" in capsys.readouterr().out
    assert memory.asked == 0
    assert not (tmp_path / "store").exists()


def test_an_error_of_the_lint_stops_it(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    bad = f"#!/bin/sh\ndocker run -e A_TOKEN={'0123456789abcdef' * 2} registry.example.org/x@sha256:{'ab' * 32} x\n"
    with pytest.raises(RefusedError, match="not submitted"):
        judged((File(name="demo.sh", text=bad),), f"sha256:{'ab' * 32}")
    said = capsys.readouterr().err
    assert "error: clear-secret: demo.sh:2" in said
    assert "0123456789abcdef" not in said
    assert memory.secrets == []
