"""``orbit launch cancel``: what it asks for, and what it remembers."""

from __future__ import annotations

import pytest

from orbit.cli import main
from orbit.launch.submit.model import CANCELLED_AT, JobStatus, Phase, load_ref
from tests.cli.launch.jobs import Memory


@pytest.fixture(autouse=True)
def submitted(memory: Memory, words: list[str]) -> None:
    """A job is there."""
    assert main(["launch", "submit", *words]) == 0


def test_the_grace_period_is_the_rule_and_now_the_exception(memory: Memory) -> None:
    assert main(["launch", "cancel", "demo"]) == 0
    assert main(["launch", "cancel", "--now", "demo"]) == 0
    assert memory.cancelled == [False, True]
    assert CANCELLED_AT in load_ref("demo").details


def test_a_dry_run_ends_nothing(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "cancel", "--dry-run", "demo"]) == 0
    assert "would end docker id-7, which is running" in capsys.readouterr().out
    assert memory.cancelled == []
    assert CANCELLED_AT not in load_ref("demo").details


def test_a_job_that_failed_by_itself_was_not_cancelled(memory: Memory) -> None:
    memory.answer = JobStatus(phase=Phase.FAILED, state="END", exit_code=1)
    assert main(["launch", "cancel", "demo"]) == 0
    assert CANCELLED_AT not in load_ref("demo").details
