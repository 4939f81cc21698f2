"""Finding every process that belongs to a job on this node, by what it carries and descends from; never by a name."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time

MARK = "ORBIT_JOB_MARK"
"""In the environment of everything a node program starts; its value is used once in the life of the world."""
ROUNDS = 100
PAUSE_S = 0.05
PR_SET_CHILD_SUBREAPER = 36
"""prctl(2)."""


def adopt_orphans() -> None:
    """Have processes whose parent ends become children of this one: what left its session is still found."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def belonging(mark: str, *, spared: frozenset[int] = frozenset()) -> set[int]:
    """Processes that carry ``mark`` (``NAME=value``) or descend from this one through one that does not; not ours.

    ``spared`` and what descends from them alone are left out: programs that belong to this process, not to the job.
    """
    parents: dict[int, int] = {}
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        pid = int(name)
        with contextlib.suppress(OSError):
            parent, state = _parent(pid)
            if state in (b"Z", b"X"):
                continue
            parents[pid] = parent
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if os.fsencode(mark) in file.read().split(b"\0"):
                    found.add(pid)
    me = os.getpid()
    for pid in parents:
        up, seen = pid, set()
        while up in parents and up != me and up not in spared and up not in seen:
            seen.add(up)
            up = parents[up]
        if up == me and pid != me:
            found.add(pid)
    return found - spared - {me}


def end_all(mark: str, *, spared: frozenset[int] = frozenset()) -> set[int]:
    """Kill what :func:`belonging` finds until nothing is; gives what would not go (stuck in the kernel)."""
    left: set[int] = set()
    for _ in range(ROUNDS):
        left = belonging(mark, spared=spared)
        if not left:
            break
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        reap(spared)
        time.sleep(PAUSE_S)
    reap(spared)
    return left


def reap(spared: frozenset[int] = frozenset()) -> None:
    """Take note of the ends of orphans that became our children, so that they do not stay as zombies."""
    me = os.getpid()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            parent, state = _parent(int(name))
            if parent == me and state == b"Z" and int(name) not in spared:
                os.waitpid(int(name), os.WNOHANG)


def _parent(pid: int) -> tuple[int, bytes]:
    with open(f"/proc/{pid}/stat", "rb") as file:
        state, parent = file.read().rpartition(b")")[2].split()[:2]
    return int(parent), state
