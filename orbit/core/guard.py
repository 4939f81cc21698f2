"""Programs we start end with us, also when we are killed with SIGKILL and can do nothing ourselves.

A small process of our own reads the process groups we start from a pipe. When the pipe closes, we are gone, and it
kills the groups that are still there and every process of their session (ninja gives each compile job a group of its
own, in the same session). Grandchildren are covered, nothing runs between fork and exec in a threaded program (no
``preexec_fn``), and the programs are started as they are, without a wrapper. Not covered: a program that leaves its
session (unless all of them carry a mark in their environment, see :meth:`Guard.sweeps`), and one killed in the
microseconds between its start and its registration.
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
import os, signal, sys, time
groups, marks, folders = set(), set(), set()
kinds = {"+": groups, "m": marks, "f": folders}
for line in sys.stdin:
    kind, text = line[0], line[1:].rstrip("\\n")
    if kind == "-":
        groups.discard(int(text))
    elif kind == "x":
        marks.clear(), folders.clear()
    else:
        kinds[kind].add(int(text) if kind == "+" else os.fsencode(text))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
for _ in range(100 if groups or marks else 0):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/" + name + "/stat") as file:
                state, _parent, _group, session = file.read().rpartition(")")[2].split()[:4]
            ours = int(session) in groups
            if marks and not ours:
                with open("/proc/" + name + "/environ", "rb") as file:
                    ours = not marks.isdisjoint(file.read().split(bytes(1)))
            if ours and state not in "ZX":
                found.append(name)
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
    if not found:
        break
    time.sleep(0.05)
if folders:
    import shutil
    for folder in folders:
        if os.path.islink(folder):
            os.unlink(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
"""


class Guard:
    """The guarding process, started with the first program and ended with us."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        os.register_at_fork(after_in_child=self._forget)

    @contextlib.contextmanager
    def watch(self, group: int) -> Iterator[None]:
        """Have process group ``group`` killed if we die while the block runs."""
        self._tell(f"+{group}\n")
        try:
            yield
        finally:
            self._tell(f"-{group}\n")

    @contextlib.contextmanager
    def sweeps(self, mark: str, *folders: str) -> Iterator[None]:
        """If we die while the block runs: every process that was started with ``mark`` (``NAME=value``, a value nobody
        else has) in its environment is killed, whatever group or session it is in, and ``folders`` are removed (of a
        link, the link). Raises ValueError for a line end in any of them.
        """
        lines = [f"m{mark}", *(f"f{folder}" for folder in folders)]
        if any("\n" in line for line in lines):
            raise ValueError("a line end in a mark or a folder's name")
        self._tell("".join(f"{line}\n" for line in lines))
        try:
            yield
        finally:
            self._tell("x\n")

    @property
    def pid(self) -> int:
        """Of the guarding process; 0: it does not run."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start the guarding process now, for who tells its own children from others."""
        self._tell("")

    def close(self) -> None:
        """End the guard; it kills what is still watched."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait()

    def _forget(self) -> None:
        """In a forked child: the guard is our parent's, and our copy of the pipe must not keep it waiting."""
        self._lock = threading.Lock()  # the parent's may be held by a thread that does not exist here
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.returncode = 0  # not ours to wait for

    def _tell(self, line: str) -> None:
        # Guarding is a second line of defence: a machine on which it cannot start still builds.
        with self._lock, contextlib.suppress(OSError):
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", PROGRAM],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    text=True,
                )
            if self._process.stdin is not None:
                self._process.stdin.write(line)
                self._process.stdin.flush()


GUARD = Guard()
atexit.register(GUARD.close)
