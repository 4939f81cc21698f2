"""orbit.env.compile_worker: the protocol on stdin and stdout, run as the program it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from orbit.env.bytecode import WORKER


def work(lines: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-S", "-P", WORKER], input=lines, capture_output=True, text=True, check=False
    )


def test_no_lines_no_work() -> None:
    assert (work("").returncode, work("").stdout) == (0, "")


def test_a_failure_is_one_line_and_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def (:\n")
    (tmp_path / "b.py").write_text("x = 1\n")
    done = work(f"{tmp_path}/a.py\0/image/a.py\n{tmp_path}/b.py\0/image/b.py\n")
    assert done.returncode == 0
    path, _, error = done.stdout.rstrip("\n").partition("\0")
    assert path == f"{tmp_path}/a.py"
    assert error.startswith("SyntaxError:")
    assert "/image/a.py" in error or "(a.py, line 1)" in error
    assert [p.name for p in (tmp_path / "__pycache__").iterdir()] == ["b.cpython-312.pyc"]


def test_a_file_that_is_not_there_is_trouble_of_its_own_kind(tmp_path: Path) -> None:
    done = work(f"{tmp_path}/gone.py\0/image/gone.py\n")
    assert done.returncode == 75
    assert "No such file" in done.stderr
