"""Hash what RECORD files promise, on all processors, while the rest of the audit goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from orbit.audit import hash_worker
from orbit.audit.facts import Distribution, RecordRow, Tree
from orbit.audit.tree import resolve
from orbit.core.proc import run

PER_FILE_BYTES = 36_000
"""What opening one file costs, in bytes hashed in the same time (20 us at 1.8 GB/s); only balances the work."""
SUPPORTED = frozenset({"sha256", "sha384", "sha512"})


class Hashing:
    """Hashing under way in worker processes; :meth:`result` waits for it."""

    def __init__(self, prefix: Path, tree: Tree, dists: Iterable[Distribution], *, workers: int | None = None) -> None:
        jobs = candidates(tree, dists)
        count = min(workers or len(os.sched_getaffinity(0)), len(jobs)) or 1
        self.bytes = sum(size for _row, size in jobs)
        self.files = len(jobs)
        self._pool = ThreadPoolExecutor(count)
        self._parts: list[tuple[list[str], Future[list[str]]]] = []
        for part in _balance(jobs, count):
            request = b"".join(b"%s\0%s/%s\0" % (r.algorithm.encode(), os.fsencode(prefix), _raw(r.path)) for r in part)
            self._parts.append(([row.path for row in part], self._pool.submit(_work, request)))

    def result(self) -> Mapping[str, str]:
        """Digest (or ``!reason``) by path. Raises :class:`orbit.errors.CommandFailed` when a worker died."""
        found: dict[str, str] = {}
        with self._pool:
            for paths, future in self._parts:
                found.update(zip(paths, future.result(), strict=True))
        return found


def candidates(tree: Tree, dists: Iterable[Distribution]) -> list[tuple[RecordRow, int]]:
    """Each file once that has a digest to compare and the promised size, with its size in bytes."""
    rows: dict[str, tuple[RecordRow, int]] = {}
    for dist in dists:
        for row in dist.rows:
            if row.algorithm not in SUPPORTED or row.path in rows:
                continue
            fact = tree.entries.get(row.path)
            if fact is None or not fact.is_file:
                target = resolve(tree, row.path)
                fact = tree.entries[target] if target is not None else None
            if fact is not None and fact.is_file and row.size in (-1, fact.size):
                rows[row.path] = (row, fact.size)
    return list(rows.values())


def _balance(jobs: list[tuple[RecordRow, int]], count: int) -> list[list[RecordRow]]:
    """Parts of about equal cost, big files first."""
    parts: list[list[RecordRow]] = [[] for _ in range(count)]
    load = [0] * count
    for row, size in sorted(jobs, key=lambda job: -job[1]):
        least = load.index(min(load))
        parts[least].append(row)
        load[least] += size + PER_FILE_BYTES
    return [part for part in parts if part]


def _raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _work(request: bytes) -> list[str]:
    argv = [sys.executable, "-I", "-S", hash_worker.__file__]
    return run(argv, doing="hashing installed files", stdin=request).stdout.decode().splitlines()
