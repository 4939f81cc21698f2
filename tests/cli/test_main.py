"""The edge of the program: every way to stop has its exit status, and only a defect shows a trace."""

from __future__ import annotations

import argparse
import errno
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orbit import __version__, cli
from orbit.errors import CheckFailed, CommandFailed, ExitCode, InputError, MissingError, OrbitError, RefusedError

ROOT = Path(__file__).resolve().parents[2]


def parser_that_runs(work: Callable[[argparse.Namespace], int]) -> Callable[[], argparse.ArgumentParser]:
    def build() -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog="orbit")
        parser.set_defaults(run=work)
        return parser

    return build


def raising(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def work(_args: argparse.Namespace) -> int:
        raise error

    return work


def orbit(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "orbit", *argv], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (CheckFailed("no", fix="look"), 1),
        (CommandFailed("nvcc failed", argv=["nvcc"], status=2, tail="a\nb"), 1),
        (InputError("bad"), 2),
        (MissingError("gone"), 3),
        (RefusedError("held"), 4),
        (OrbitError("base"), 70),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 4),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 4),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), 2),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_each_expected_end_has_a_status_a_sentence_and_no_trace(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "build_parser", parser_that_runs(raising(error)))
    assert cli.main([]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("orbit: ")
    assert "Traceback" not in err


def test_a_failed_program_shows_its_last_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = CommandFailed("compiling x", argv=["nvcc"], status=2, tail="x.cu(3): error", fix="edit x.cu")
    monkeypatch.setattr(cli, "build_parser", parser_that_runs(raising(error)))
    assert cli.main([]) == ExitCode.FINDINGS
    assert capsys.readouterr().err == "orbit: error: compiling x\n  fix: edit x.cu\n  | x.cu(3): error\n"


def test_a_defect_is_70_with_its_trace(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli, "build_parser", parser_that_runs(raising(ZeroDivisionError("a defect"))))
    assert cli.main([]) == ExitCode.INTERNAL
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "orbit: internal error: ZeroDivisionError('a defect')" in err
    assert "please report" in err


def test_the_status_of_a_command_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "build_parser", parser_that_runs(lambda _args: 1))
    assert cli.main([]) == 1


@pytest.mark.parametrize("argv", [[], ["no-such-command"], ["completion"], ["completion", "fish"], ["--no-such-flag"]])
def test_bad_usage_is_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)
    assert caught.value.code == ExitCode.USAGE
    assert "usage: orbit" in capsys.readouterr().err


def test_version_and_help_as_a_program() -> None:
    assert orbit("--version").stdout == f"orbit {__version__}\n"
    done = orbit("--help")
    assert done.returncode == 0
    assert "exit codes: 0 clean" in " ".join(done.stdout.split())
    for command in cli.COMMANDS:
        assert f"\n    {command} " in done.stdout or f"\n    {command}\n" in done.stdout


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for command in cli.COMMANDS:
        with pytest.raises(SystemExit) as caught:
            cli.main([command, "--help"])
        assert caught.value.code == 0
        assert len(capsys.readouterr().out.splitlines()) > 4


def test_starting_up_imports_nothing_heavy() -> None:
    program = (
        "import json, sys; from orbit.cli import build_parser; build_parser(); "
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "orbit" in loaded
    assert loaded.isdisjoint({"torch", "ray", "numpy", "shtab", "rich", "zstandard", "msgspec", "cryptography"})


def test_a_closed_pipe_is_a_quiet_end() -> None:
    program = f"{sys.executable} -m orbit completion bash | head -c 1; exit $((${{PIPESTATUS[0]}}))"
    done = subprocess.run(["bash", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""


def test_results_with_paths_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    cli.print_json({"layout": Path("/a/b"), "layers": [1]})
    assert json.loads(capsys.readouterr().out) == {"layout": "/a/b", "layers": [1]}
    with pytest.raises(NotImplementedError, match="no JSON for object"):
        cli.print_json(object())
