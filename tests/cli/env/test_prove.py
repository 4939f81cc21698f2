"""orbit env prove: what is printed and written; the proof itself is tested in tests/release/test_second_prefix.py."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from orbit.cli import main
from orbit.release import second_prefix
from orbit.release.evidence import Result
from tests.env.archives import make_environment
from tests.release.test_second_prefix import document


@pytest.mark.parametrize(("result", "reason", "code"), [
    ("passed", "", 0), ("failed", "audit: 1 finding(s)", 1), ("skipped", "not looked at: x", 3),
])  # fmt: skip
def test_it_prints_and_writes_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    result: str, reason: str, code: int,
) -> None:  # fmt: skip
    asked: list[second_prefix.Request] = []
    found = document(result=Result(result), reason=reason)

    def prove(request: second_prefix.Request, **_rest: object) -> second_prefix.SecondPrefix:
        asked.append(request)
        return found

    monkeypatch.setattr(second_prefix, "prove", prove)
    argv = ["env", "prove", "a", "--prefix", "p", "--uid", "7", "--image", "i", "--output", str(tmp_path / "out.json")]
    assert main(argv) == code
    assert f"uid 1, bubblewrap: {result}" in capsys.readouterr().out
    assert msgspec.json.decode((tmp_path / "out.json").read_bytes(), type=second_prefix.SecondPrefix) == found
    assert (asked[0].uid, asked[0].image, asked[0].keep, asked[0].profile) == (7, Path("i"), False, None)
    assert main([*argv, "--json", "--keep", "--profile", "probe"]) == code
    assert json.loads(capsys.readouterr().out)["schema"] == "orbit.second-prefix/1"
    assert asked[1].keep
    assert asked[1].profile is not None


def test_a_place_that_is_taken_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_environment(tmp_path / "env")
    assert main(["env", "prove", str(tmp_path / "a"), "--prefix", str(tmp_path / "env")]) == 4
    assert "an environment is there" in capsys.readouterr().err
