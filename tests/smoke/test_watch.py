"""Budgets of memory, and processes that outlive their check."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orbit.core.proc import Stop
from orbit.smoke.model import Check, Context, SmokeList
from orbit.smoke.runner import Machine, run_check, run_list
from orbit.smoke.watch import MIB, MemoryWatch, descendants, private_bytes
from tests.source import ROOT

MEMORY = "import time\nprint('about to take it', flush=True)\nheld = bytearray(b'x') * (400 << 20)\ntime.sleep(60)\n"
NO_GPU = Machine(has_driver=False, reason="none")


def package(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT}")  # Orbit may be importable by it alone


def test_a_check_that_takes_too_much_is_stopped_and_says_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, "fake_greedy", MEMORY, monkeypatch)
    check = Check(name="g", kind="import", memory_mb=100, timeout_s=50, parameters={"modules": ["fake_greedy"]})
    (result,) = run_list(SmokeList(name="l", checks=(check,)), Context(), machine=NO_GPU)
    assert result.result == "failed"
    assert "its budget is 100 MB" in result.detail
    assert result.peak_mb > 100
    assert "about to take it" in result.tail


def test_a_check_within_its_budget_tells_its_peak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import time\nheld = bytearray(b'x') * (200 << 20)\ntime.sleep(1.5)\n"
    package(tmp_path, "fake_modest", text, monkeypatch)
    check = Check(name="m", kind="import", memory_mb=1000, timeout_s=50, parameters={"modules": ["fake_modest"]})
    outcome = run_check(check, Context())
    assert (outcome.error, outcome.limit) == ("", "")
    assert 200 <= outcome.peak_mb < 1000


def test_the_kernel_refuses_what_is_far_beyond_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "fake_huge", "held = bytearray(200 << 30)\n", monkeypatch)
    check = Check(name="h", kind="import", memory_mb=100, timeout_s=50, parameters={"modules": ["fake_huge"]})
    assert "MemoryError" in run_check(check, Context()).error
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY


def test_the_watch_spares_what_was_there_before() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "x = bytearray(b'x') * (150 << 20); input()"], stdin=subprocess.PIPE
    ) as old:
        try:
            while private_bytes(old.pid) < 150 * MIB:
                time.sleep(0.05)
            before = descendants(os.getpid())
            assert old.pid in before
            with MemoryWatch(Stop(), 50, spared=before) as watch:
                time.sleep(0.6)
            assert not watch.exceeded
            with MemoryWatch(Stop(), 50) as watch:
                time.sleep(0.6)
            assert watch.exceeded
        finally:
            old.kill()


def test_a_process_that_left_its_session_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen from outside: only a process that does nothing else takes every orphan for a left-over."""
    pid_file = tmp_path / "pid"
    daemon = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    text = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {daemon!r}], start_new_session=True)\n"
        f"while not os.path.exists({str(pid_file)!r}) or not open({str(pid_file)!r}).read(): time.sleep(0.05)\n"
    )
    package(tmp_path / "site", "fake_daemon", text, monkeypatch)
    (tmp_path / "l.toml").write_text(
        'schema = 1\nname = "l"\n[[checks]]\nname = "d"\nkind = "import"\nparameters = {modules = ["fake_daemon"]}\n'
    )
    words = [sys.executable, "-m", "orbit.smoke", str(tmp_path / "l.toml"), "--json"]
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}:{root}"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["facts"]["processes_left"] == 1
    assert not Path(f"/proc/{pid_file.read_text()}").exists()
