"""Following a log that grows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.image.smoke.follow import Follower, read_result
from tests.image.tiny import PLAN, result


def test_the_follower_reads_whole_lines_of_known_checks(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    with Follower(log, PLAN, Silent(), every_s=0.01) as follower, log.open("a") as out:
        line = json.dumps(result("one").as_dict())
        out.write(line[:20])
        out.flush()
        out.write(line[20:] + "\nwarning: something\n" + json.dumps(result("stranger").as_dict()) + "\n")
        out.write(json.dumps(result("two", "wonderful").as_dict()))
    assert [item.check for item in follower.results] == ["one"]
    assert "warning: something" in follower.noise()
    assert "stranger" in follower.noise()


@pytest.mark.parametrize("line", ["", "{", '{"check"', '{"check": 3}', "[1]", '{"check": "a"}'])
def test_lines_that_are_no_results(line: str) -> None:
    assert read_result(line) is None
