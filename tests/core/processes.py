"""Processes for tests: one that is hard to end, and questions about whether it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

# A program that starts a grandchild which ignores SIGTERM, says its pid, and waits.
STUBBORN = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c",
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"],
    stdout=subprocess.PIPE)
child.stdout.readline()
open(sys.argv[1] + ".new", "w").write(str(child.pid))
import os; os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(60)
"""


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie that nobody reaps does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")


def until(true: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.02)
    return true()
