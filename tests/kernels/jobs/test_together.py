"""Server, schedule, estimates, progress and costs in one run: packages of real processes, as build.py wires them."""

from __future__ import annotations

import functools
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from orbit.core.proc import run
from orbit.kernels.jobs.costs import most_at_once, package_cost
from orbit.kernels.jobs.estimates import Estimator, fallback, load_known, remembering
from orbit.kernels.jobs.policy import Limits, inflight
from orbit.kernels.jobs.progress import reported
from orbit.kernels.jobs.schedule import Done, Job, Outcome, run_jobs
from orbit.kernels.jobs.server import JobServer
from orbit.kernels.jobs.steps import Line
from tests.core.processes import alive, until
from tests.kernels.jobs.writers import GIB, MIB

CORES, UNITS = 2, 6

# A build tool that keeps -j units open, and a compiler that asks, holds memory, works and reports.
BUILD_TOOL = """
import subprocess, sys, threading
path, name, jobs, units, seconds, pids = sys.argv[1:7]
todo = list(range(int(units)))
def work():
    while todo:
        child = subprocess.Popen([sys.executable, "-c", sys.argv[7], path, name, str(todo.pop()), seconds, pids])
        if child.wait(): failed.append(child.returncode)
failed = []
threads = [threading.Thread(target=work) for _ in range(int(jobs))]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.exit(len(failed))
"""
COMPILER = """
import json, os, resource, socket, sys, time
path, name, number, seconds, pids = sys.argv[1:6]
open(f"{pids}/{os.getpid()}", "w").close()
line = socket.socket(socket.AF_UNIX); line.connect(path)
ask = {"recipe": name, "step": "host", "source": number + ".cc", "arch": "", "cached": False}
line.sendall((json.dumps(ask) + "\\n").encode())
if line.recv(9) != b"go\\n": sys.exit(75)
held = b"a" * (40 << 20)
time.sleep(float(seconds))
used = resource.getrusage(resource.RUSAGE_SELF)
cpu = used.ru_utime + used.ru_stime
report = {"seconds": float(seconds), "cpu_s": cpu, "peak_bytes": used.ru_maxrss << 10, "status": 0}
line.sendall((json.dumps(report) + "\\n").encode())
"""


class Told:
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, text: str) -> None:
        self.said.append(text)

    def advance(self, what: str, done: int, total: int, unit: str = "") -> None:
        self.said.append(f"{what} {done}/{total}")


def build(root: Path, seconds: float, told: Told) -> tuple[tuple[Outcome[float], ...], JobServer]:
    """Two packages at once behind one server; each remembers what it measured."""
    (root / "pids").mkdir(exist_ok=True)
    server = JobServer(Limits(cores=CORES, budget_bytes=GIB, margin_bytes=0), progress=told, available=lambda: 8 * GIB)

    def package(name: str) -> float:
        began = time.monotonic()
        known = Estimator(load_known(root, name), fallback(0.1, 0.001, UNITS, 1))
        with remembering(root, name, lambda: server.lines(name)), server.build(known):
            run(
                [sys.executable, "-c", BUILD_TOOL, server.path, name, str(inflight(CORES)), str(UNITS), str(seconds),
                 str(root / "pids"), COMPILER],
                doing=f"build {name}",
            )  # fmt: skip
        return time.monotonic() - began

    with server, reported(server.view, told, poll_s=0.05):
        jobs = [Job(name, 1.0, functools.partial(package, name)) for name in ("a", "b")]
        outcomes = run_jobs(jobs, at_once=2, progress=told)
    return outcomes, server


def spans(lines: tuple[Line, ...]) -> list[tuple[float, float, int]]:
    return [(line.began_s, line.ended_s, 1) for line in lines]


def test_two_packages_share_the_machine_and_leave_what_they_measured(tmp_path: Path) -> None:
    told = Told()
    outcomes, server = build(tmp_path, 0.1, told)
    assert all(isinstance(outcome, Done) for outcome in outcomes)
    lines = (*server.lines("a"), *server.lines("b"))
    assert len(lines) == 2 * UNITS
    assert most_at_once(spans(lines)) == CORES
    # fair: neither waited for the other to end
    assert min(line.began_s for line in server.lines("a")) < max(line.ended_s for line in server.lines("b"))
    assert min(line.began_s for line in server.lines("b")) < max(line.ended_s for line in server.lines("a"))
    for name in "ab":
        known = load_known(tmp_path, name)
        assert len(known.steps) == UNITS
        assert all(step.peaks[0] > 40 * MIB for step in known.steps)
    walls = [each.value for each in outcomes if isinstance(each, Done)]
    cost = package_cost("both", lines, wall_s=max(walls), cores=CORES)
    assert (cost.steps, cost.failed) == (2 * UNITS, 0)
    assert 40 * MIB < cost.peak_bytes < 200 * MIB
    assert cost.peak_sum_bytes <= 2 * cost.peak_bytes
    # the second run knows how many units there are and what they take
    again = Told()
    build(tmp_path, 0.1, again)
    assert any(text.endswith(f"/{2 * UNITS}") for text in again.said)
    assert any("left; units done" in text for text in again.said)


def test_ctrl_c_ends_packages_tools_and_compilers(tmp_path: Path) -> None:
    main = threading.main_thread().ident
    assert main is not None
    pids = tmp_path / "pids"

    def interrupt() -> None:
        until(lambda: pids.is_dir() and len(list(pids.iterdir())) >= 2 * inflight(CORES), 30)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, 60, Told())
    thread.join()
    assert time.monotonic() - began < 30
    assert len(list(pids.iterdir())) >= 2 * inflight(CORES)
    assert until(lambda: not [p for p in pids.iterdir() if alive(int(p.name))])
    assert not load_known(tmp_path, "a").steps
