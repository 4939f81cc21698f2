"""``orbit launch status``: one job, all of them, and an end that was asked for."""

from __future__ import annotations

import json

import pytest

from orbit.cli import main
from orbit.errors import MissingError
from orbit.launch.submit.model import JobStatus, Phase
from tests.cli.launch.jobs import Memory


@pytest.fixture(autouse=True)
def submitted(memory: Memory, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A job is there."""
    assert main(["launch", "submit", *words]) == 0
    capsys.readouterr()


def test_one_job_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "status", "demo"]) == 0
    assert capsys.readouterr().out == "demo: running (docker id-7, RUN) on n1\n"


def test_a_failure_is_exit_status_1_with_its_reason(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    memory.answer = JobStatus(phase=Phase.FAILED, state="END", exit_code=7, message="out of memory")
    assert main(["launch", "status", "demo"]) == 1
    assert capsys.readouterr().out == "demo: failed (docker id-7, END, status 7): out of memory\n"


def test_a_failure_after_cancel_was_asked_for(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "cancel", "demo"]) == 0
    memory.answer, memory.asked = JobStatus(phase=Phase.FAILED, state="END", exit_code=9), 0
    assert main(["launch", "status", "--json", "demo"]) == 1
    said = capsys.readouterr().out
    assert json.loads(said[said.index("{") :])["status"]["phase"] == "cancelled"


def test_waiting_ends_with_the_job(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("orbit.cli.launch.status.PAUSE_S", 0.01)
    assert main(["launch", "status", "--wait", "demo"]) == 0
    assert memory.asked == 3
    assert "succeeded" in capsys.readouterr().out


def test_all_jobs_also_those_whose_scheduler_is_away(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    memory.error = MissingError("no engine")
    assert main(["launch", "status"]) == 0
    assert capsys.readouterr().out == "demo: not known (no engine)\n"
    assert main(["launch", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["error"] == "no engine"
    assert main(["launch", "status", "demo"]) == 3


def test_what_cannot_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "status", "--wait"]) == 2
    assert main(["launch", "status", "other"]) == 2
    assert "known: demo" in capsys.readouterr().err
