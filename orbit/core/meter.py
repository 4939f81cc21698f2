"""Time and memory of a piece of work, children included."""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType
from typing import Self

from orbit.core.beside import Beside

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PERIOD_S = 0.5


class Meter(Beside):
    """Context manager that measures wall seconds and the highest resident memory of this process and its descendants.

    Memory is sampled from ``/proc`` twice a second and summed as resident set size, so pages shared between processes
    count more than once: the figure is an upper estimate.
    """

    def __init__(self) -> None:
        super().__init__("meter")
        self.seconds = 0.0
        self.peak_bytes = 0
        self._began = 0.0

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.seconds = round(time.monotonic() - self._began, 3)

    def work(self, ended: threading.Event) -> None:
        """Look, twice a second."""
        while True:
            self.peak_bytes = max(self.peak_bytes, resident_bytes(os.getpid()))
            if ended.wait(PERIOD_S):
                return


def resident_bytes(root_pid: int) -> int:
    """Resident bytes of ``root_pid`` and everything it started that is still below it; 0 where /proc is absent."""
    parents: dict[int, int] = {}
    resident: dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return 0
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # the command name is in parentheses and may itself hold spaces and parentheses (proc(5))
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        parents[int(name)] = int(fields[1])
        resident[int(name)] = int(fields[21]) * PAGE_BYTES
    return sum(size for pid, size in resident.items() if _descends(pid, root_pid, parents))


def _descends(pid: int, root_pid: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == root_pid:
            return True
        pid = parents.get(pid, 0)
    return pid == root_pid
