"""``orbit launch logs``: bytes as they are, or lines as JSON."""

from __future__ import annotations

import json

import pytest

from orbit.cli import main
from tests.cli.launch.jobs import Memory


def test_bytes_come_through_as_they_are(
    memory: Memory, words: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["launch", "submit", *words]) == 0
    capfdbinary.readouterr()
    assert main(["launch", "logs", "demo"]) == 0
    assert capfdbinary.readouterr().out == b"first \xffline\nsecond"


def test_lines_as_json(memory: Memory, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "submit", *words]) == 0
    capsys.readouterr()
    assert main(["launch", "logs", "--json", "--follow", "demo"]) == 0
    lines = [json.loads(line)["line"] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["first \ufffdline", "second followed"]
