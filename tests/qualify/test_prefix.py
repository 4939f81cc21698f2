"""Recording in an environment: its Python is started, what it says comes back."""

from __future__ import annotations

import argparse
import os
import stat
from pathlib import Path

import pytest

from orbit.errors import CommandFailed, InputError, MissingError
from orbit.qualify.options import add_options
from orbit.qualify.prefix import environment_of, plan, python_of, record_in
from tests.qualify.made import record


def options(*argv: str, prefix: Path | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return argparse.Namespace(**vars(parser.parse_args(argv)), prefix=prefix)


def fake(tmp_path: Path, script: str) -> Path:
    """An environment whose Python is a shell script."""
    python = tmp_path / "env" / "bin" / "python3.12"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return tmp_path / "env"


def test_a_folder_without_python_is_no_environment(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no environment"):
        python_of(tmp_path)
    assert python_of(fake(tmp_path, "")) == tmp_path / "env" / "bin" / "python3.12"


def test_a_plan_runs_nothing(tmp_path: Path) -> None:
    said = plan(options("--set", "tf32=true", prefix=fake(tmp_path, "touch ran")))
    assert "tf32=True" in str(said["settings"])
    assert "torch float32" in str(said["cases on cpu"])
    assert "sgl-kernel bfloat16" in str(said["cases on cuda"])
    with pytest.raises(InputError):
        plan(options("--image", "latest"))


def test_the_record_the_environment_wrote_is_read(tmp_path: Path) -> None:
    made = record(tmp_path / "made.json")
    out = tmp_path / "r.json"
    prefix = fake(tmp_path, f'echo "$@" > {tmp_path}/argv; cp {tmp_path}/made.json {out}; exit 0')
    assert record_in(prefix, options("--out", str(out), "--device", "cpu")) == made
    assert "orbit.qualify.__main__" in (tmp_path / "argv").read_text()
    assert "--device cpu" in (tmp_path / "argv").read_text()


@pytest.mark.parametrize(
    ("script", "kind", "said"),
    [
        ("echo torch is gone >&2; exit 3", MissingError, "torch is gone"),
        ("echo bad option >&2; exit 2", InputError, "bad option"),
        ("exit 0", CommandFailed, "no record was made"),
        ("kill -SEGV $$", CommandFailed, "no record was made"),
    ],
)
def test_no_record_is_an_error_with_what_was_said(
    tmp_path: Path, script: str, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        record_in(fake(tmp_path, script), options("--out", str(tmp_path / "r.json")))


def test_an_old_record_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    record(out)
    with pytest.raises(MissingError, match="no record was made"):
        record_in(fake(tmp_path, "exit 3"), options("--out", str(out)))


def test_a_foreign_environment_has_no_activation(tmp_path: Path) -> None:
    assert environment_of(tmp_path) == {}
    assert os.environ.get("PATH")
