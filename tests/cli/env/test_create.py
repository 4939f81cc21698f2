"""orbit env create: what people type, what they get, and what they are told when it cannot be done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main


def test_a_dry_run_says_what_would_happen_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    assert main(["env", "create", "--dry-run", "--json", "--kernels", "all"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["prebuilt"] > 200
    assert answer["download_bytes"] * 2 < answer["environment_bytes"]
    assert {"causal-conv1d", "flash-attn"} <= set(answer["recipes"])
    assert {"causal-conv1d", "flash-attn"} <= set(answer["without_wheel"])
    assert main(["env", "create", "--dry-run", "--profile", "probe"]) == 0
    assert "would build first: orbit-probe" in capsys.readouterr().out
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["env", "create", "--profile", "none"], "no profile named 'none'"),
        (["env", "activate", "/nowhere"], "not an Orbit environment"),
    ],
)
def test_bad_input_is_one_sentence_with_a_way_out(
    argv: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "fix:" in err
    assert "Traceback" not in err


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "file" / "cache"))
    assert main(["env", "create", "--profile", "probe"]) in (2, 4)
    err = capsys.readouterr().err
    assert str(tmp_path / "file") in err
    assert "Traceback" not in err
