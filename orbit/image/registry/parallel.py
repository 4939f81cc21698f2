"""Several blobs at once: threads that end together, and progress in bytes with the time that is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from orbit.core.console import Progress
from orbit.image.registry.session import Registry

JOBS = 4
"""Blobs at once. More gains little: one connection per blob fills most links, and registries limit clients."""


def run_all[T](registry: Registry, work: Sequence[Callable[[], T]], *, jobs: int = JOBS) -> list[T]:
    """The results of ``work``, in its order. The first failure, or an interrupt, stops all and is raised."""
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(task) for task in work]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            if not all(future.done() and not future.exception() for future in futures):
                registry.abort()
                for future in futures:
                    future.cancel()
    errors = [future.exception() for future in futures if not future.cancelled()]
    for error in sorted(filter(None, errors), key=lambda error: isinstance(error, KeyboardInterrupt)):
        raise error
    return [future.result() for future in futures]


class Meter:
    """Adds up how far each blob is and tells it. Threads may share one."""

    def __init__(self, progress: Progress, doing: str, total: int) -> None:
        self._progress, self._doing, self._total = progress, doing, total
        self._lock = threading.Lock()
        self._at: dict[str, int] = {}
        self._moved = 0
        self._began = time.monotonic()

    def at(self, digest: str, position: int, *, moved: int = 0) -> None:
        """The blob ``digest`` is at ``position``; ``moved`` bytes of that just came over the network."""
        with self._lock:
            self._at[digest] = position
            self._moved += moved
            done, moved = sum(self._at.values()), self._moved
        if not moved:
            return
        rate = moved / max(1e-3, time.monotonic() - self._began)
        left = duration((self._total - done) / rate)
        self._progress.advance(f"{self._doing} ({rate / 1e6:.1f} MB/s, {left} left), bytes", done, self._total)

    @property
    def moved(self) -> int:
        """Bytes that came or went over the network, repeated ones included."""
        return self._moved


def duration(seconds: float) -> str:
    """A length of time in words: ``40 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
