"""Several blobs at once: threads that end together, and progress in bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from orbit.core.console import BYTES, Progress
from orbit.core.records import Record
from orbit.image.registry.session import Registry

JOBS = 4
"""Blobs at once. More gains little: one connection per blob fills most links, and registries limit clients."""


class BlobState(Record, frozen=True, kw_only=True):
    """One blob of a transfer."""

    name: str
    """``config``, or the layer's name or number."""
    digest: str
    size: int
    state: str
    """``there``: was at its place already; ``mounted``: taken from another repository of the registry; ``moved``: went
    over the network; ``missing``: would have to."""


def run_all[T](registry: Registry, work: Sequence[Callable[[], T]], *, jobs: int = JOBS) -> list[T]:
    """The results of ``work``, in its order. The first failure, or an interrupt, stops all and is raised."""

    def one(task: Callable[[], T]) -> T:
        try:
            return task()
        except BaseException:
            registry.abort()  # here, so that this thread does not begin the next task
            raise

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one, task) for task in work]
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

    def at(self, digest: str, position: int, *, moved: int = 0) -> None:
        """The blob ``digest`` is at ``position``; ``moved`` bytes of that just came over the network."""
        with self._lock:
            self._at[digest] = position
            self._moved += moved
            done, moved = sum(self._at.values()), self._moved
        if not moved:
            return
        self._progress.advance(self._doing, done, self._total, BYTES)

    @property
    def moved(self) -> int:
        """Bytes that came or went over the network, repeated ones included."""
        return self._moved
