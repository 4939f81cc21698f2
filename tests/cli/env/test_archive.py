"""orbit env archive: what people type and what they are told."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.env import archive as writer
from tests.env.archives import make_environment


def test_it_writes_a_file_and_says_its_sha256(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix, target = make_environment(tmp_path / "env"), tmp_path / "a.tar.zst"
    argv = ["env", "archive", str(prefix), "--without-orbit", "--output", str(target)]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split()[1] == str(target)
    assert main([*argv, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["written"]["sha256"] == out.split()[0]
    assert answer["manifest"]["schema"] == "orbit.env-archive/1"


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["env", "archive", str(make_environment(tmp_path / "env")), "--without-orbit", "--output", "-", "--dry-run"]
    assert main(argv) == 0
    assert "would write environment eeeeeeeeeeee" in capsys.readouterr().out
    assert main([*argv, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["environment"] == "e" * 64
    assert [path.name for path in tmp_path.iterdir()] == ["env"]


@pytest.mark.parametrize(
    ("argv", "says", "code"),
    [
        (["nowhere", "--output", "x"], "not an Orbit environment", 2),
        (["nowhere", "--output", "-", "--json"], "both want standard output", 2),
        (["nowhere", "--output", "x", "--jobs", "0"], "at least one", 2),
        (["--output", "x", "--profile", "probe"], "no environment of profile probe", 3),
    ],
)
def test_bad_input_has_a_way_out(
    argv: list[str], says: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    assert main(["env", "archive", *argv]) == code
    err = capsys.readouterr().err
    assert says in err
    assert "fix:" in err


def test_a_full_disk_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_handle: int, _data: object) -> int:
        raise OSError(28, os.strerror(28))

    prefix = make_environment(tmp_path / "env")
    monkeypatch.setattr(writer.os, "write", full)
    assert main(["env", "archive", str(prefix), "--without-orbit", "--output", str(tmp_path / "a")]) == 4
    assert "free some room" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["env"]


def test_a_pipe_carries_it_to_another_place(tmp_path: Path) -> None:
    """What people do over ssh, with both ends here."""
    import subprocess

    prefix = make_environment(tmp_path / "env")
    root = Path(__file__).parents[3]
    env = os.environ | {"PYTHONPATH": str(root)}
    orbit = [sys.executable, "-m", "orbit", "env"]
    with subprocess.Popen(
        [*orbit, "archive", str(prefix), "--without-orbit", "--output", "-"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
    ) as one:  # fmt: skip
        two = subprocess.run(
            [*orbit, "hydrate", "-", "--prefix", str(tmp_path / "there")],
            stdin=one.stdout, capture_output=True, text=True, env=env, check=False,
        )  # fmt: skip
        assert one.wait() == 0
    assert two.returncode == 0, two.stderr
    assert two.stdout == f"{tmp_path / 'there'}\n"
    assert (tmp_path / "there" / "share/orbit/environment.json").is_file()
