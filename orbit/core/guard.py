"""Programs we start end with us, also when we are killed with SIGKILL and can do nothing ourselves.

A small process of our own reads the process groups we start from a pipe. When the pipe closes, we are gone, and it
kills the groups that are still there. Grandchildren are covered (the group is killed, not one process), nothing runs
between fork and exec in a threaded program (no ``preexec_fn``), and the programs are started as they are, without a
wrapper. Not covered: a program that leaves its process group, and one killed in the microseconds between its start
and its registration.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

# The guard's whole program: no imports of ours, so it starts in about 10 ms and depends on nothing.
PROGRAM = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class Guard:
    """The guarding process, started with the first program and ended with us."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._process: subprocess.Popen[str] | None = None

    @contextlib.contextmanager
    def watch(self, group: int) -> Iterator[None]:
        """Have process group ``group`` killed if we die while the block runs."""
        self._tell(f"+{group}\n")
        try:
            yield
        finally:
            self._tell(f"-{group}\n")

    def close(self) -> None:
        """End the guard; it kills what is still watched."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None and self._owner == os.getpid():
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait()

    def _tell(self, line: str) -> None:
        # Guarding is a second line of defence: a machine on which it cannot start still builds.
        with self._lock, contextlib.suppress(OSError):
            if self._process is None or self._owner != os.getpid():
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", PROGRAM],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    text=True,
                )
                self._owner = os.getpid()
            if self._process.stdin is not None:
                self._process.stdin.write(line)
                self._process.stdin.flush()


GUARD = Guard()
atexit.register(GUARD.close)
