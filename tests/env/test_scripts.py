"""orbit.env.scripts: every form installers write is recognised, and the result runs from wherever it lies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from orbit.env.scripts import LAUNCHER, relocate_scripts, script_body

BODY = b"import sys\nprint('hello', sys.argv[1:])\n"


@pytest.mark.parametrize(
    "head",
    [
        b"#!/here/prefix/bin/python3.12\n",
        b"#!/here/prefix/bin/python -E\n",
        b"#!/bin/sh\n'''exec' /here/prefix/bin/python3.12 \"$0\" \"$@\"\n' '''\n",
        b"#!/bin/sh\n'''exec' '/here/prefix/bin/python3' \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_scripts_of_this_prefix_are_recognised(head: bytes) -> None:
    assert script_body(head + BODY, Path("/here/prefix")) == BODY


@pytest.mark.parametrize(
    "data",
    [b"", b"\x7fELF\x02\x01", b"#!/bin/sh\necho\n", b"#!/usr/bin/env python3\n", b"#!/bin/bash\nexec x\n", b"#!"],
)
def test_other_programs_are_left_alone(data: bytes) -> None:
    assert script_body(data, Path("/here/prefix")) is None


def test_a_rewritten_script_is_not_rewritten_again() -> None:
    assert script_body(LAUNCHER + BODY, Path("/here/prefix")) is None


def test_scripts_run_after_a_move_and_through_a_link(tmp_path: Path) -> None:
    prefix = tmp_path / "first"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "hello").write_bytes(f"#!{prefix}/bin/python3.12\n".encode() + BODY)
    (prefix / "bin" / "hello").chmod(0o755)
    (prefix / "bin" / "notes.txt").write_text("text")
    assert relocate_scripts(prefix) == ("hello",)
    moved = prefix.rename(tmp_path / "second place")
    (moved / "bin" / "python3.12").symlink_to(sys.executable)
    (tmp_path / "link").symlink_to(moved / "bin" / "hello")
    for program in (moved / "bin" / "hello", tmp_path / "link"):
        out = subprocess.run([program, "a b", "c"], capture_output=True, text=True, check=True).stdout
        assert out == "hello ['a b', 'c']\n"
