"""Keeping a check inside its budget of memory, and ending what it left running.

There need not be a cgroup that may be written (a job in a container has none), so memory is looked at: private pages of
the check and of all it started, a few times a second. One process that takes much more at once is stopped by the
kernel (:func:`limit_own_memory`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator

from orbit.core.beside import Beside
from orbit.core.guard import GUARD
from orbit.core.proc import Stop

PERIOD_S = 0.25
ROUNDS, ROUND_S = 100, 0.02
"""Looks for processes that were left, and the time between them."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
HARD_FACTOR = 2
HARD_EXTRA_MB = 4096
"""A process may map this much beyond its budget without using it: stacks of threads, arenas of the allocator."""
PR_SET_CHILD_SUBREAPER = 36
"""prctl(2)."""


class MemoryWatch(Beside):
    """Context manager: stops what ``stop`` covers when this process's descendants use more than ``budget_mb``."""

    def __init__(self, stop: Stop, budget_mb: int, *, spared: frozenset[int] = frozenset()) -> None:
        super().__init__("smoke-memory")
        self.peak_mb = 0
        self.exceeded = False
        self._stop = stop
        self._budget_mb = budget_mb
        self._spared = spared

    def work(self, ended: threading.Event) -> None:
        """Look, four times a second."""
        while not ended.wait(PERIOD_S):
            used_mb = sum(private_bytes(pid) for pid in descendants(os.getpid()) - self._spared) // MIB
            self.peak_mb = max(self.peak_mb, used_mb)
            if used_mb > self._budget_mb:
                self.exceeded = True
                self._stop.now()
                return


def descendants(root: int) -> frozenset[int]:
    """Every running process below ``root``, itself not included; empty where /proc is absent."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    left = [root]
    while left:
        new = [pid for pid in children.get(left.pop(), ()) if pid not in found]
        found.update(new)
        left.extend(new)
    return frozenset(found)


def _parents() -> Iterator[tuple[int, int]]:
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            # state and parent follow the name, which is in parentheses and may hold any others (proc(5))
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            if state not in (b"Z", b"X"):
                yield int(name), int(parent)


def private_bytes(pid: int) -> int:
    """Resident pages of a process that belong to no file and no shared memory; 0 when it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/statm", "rb") as file:
        _size, resident, shared = (int(word) for word in file.read().split()[:3])
        return max(0, resident - shared) * PAGE_BYTES
    return 0


def limit_own_memory(budget_mb: int) -> None:
    """Have the kernel refuse this process, and each it starts, memory far beyond the budget (RLIMIT_DATA)."""
    limit = (budget_mb * HARD_FACTOR + HARD_EXTRA_MB) * MIB
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or hard > limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


class Orphans:
    """Processes that outlive their parent: found and ended, once :meth:`adopt` was called.

    Only for a process that does nothing but run checks: what it did not start for one is taken for a left-over.
    """

    def __init__(self) -> None:
        self._adopting = False

    def adopt(self) -> None:
        """From now on a descendant whose parent ends becomes this process's child."""
        GUARD.start()
        with contextlib.suppress(OSError, AttributeError):
            self._adopting = ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0

    def end(self, before: frozenset[int]) -> int:
        """Kill every descendant that was not there ``before``, in whatever session; how many there were."""
        return _end_rest(before) if self._adopting else 0


ORPHANS = Orphans()


def _end_rest(before: frozenset[int]) -> int:
    ended: set[int] = set()
    for _ in range(ROUNDS):
        left = descendants(os.getpid()) - before
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        ended |= left
        if not left and not _unburied(ended):
            break
        time.sleep(ROUND_S)
    return len(ended)


def _unburied(pids: set[int]) -> bool:
    """Bury those of ``pids`` that have ended; whether one is still to come."""
    waiting = False
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            waiting |= os.waitpid(pid, os.WNOHANG)[0] == 0
    return waiting
