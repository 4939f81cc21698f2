"""Hash what RECORD files promise, on all processors, while the rest of the audit goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from orbit.audit.facts import RecordRow
from orbit.audit.installed import hash_worker
from orbit.core.proc import run

PER_FILE_BYTES = 36_000
"""What opening one file costs, in bytes hashed in the same time (20 us at 1.8 GB/s); only balances the work."""
BIG_FILES = 2_000
"""So many of the largest files are dealt out by size, the rest in turn."""
SUPPORTED = frozenset({"sha256", "sha384", "sha512"})


class Rows(Protocol):
    """Something with lines of a RECORD: a :class:`orbit.audit.facts.Distribution`, or a list of files in that form."""

    @property
    def rows(self) -> Iterable[RecordRow]:
        """Which files, and with which algorithm each is hashed."""


class Hashing:
    """Hashing under way in worker processes (paths in ``known`` left out); :meth:`result` waits for it."""

    def __init__(
        self,
        prefix: Path,
        dists: Iterable[Rows],
        *,
        known: Container[str] = frozenset(),
        workers: int | None = None,
    ) -> None:
        rows: dict[str, RecordRow] = {}
        for dist in dists:
            for row in dist.rows:
                if row.algorithm in SUPPORTED and row.path not in known:
                    other = rows.setdefault(row.path, row)
                    if other.size != row.size:  # two owners: whose file is on disk is for the rules to say
                        rows[row.path] = row._replace(size=-1)
        count = min(workers or len(os.sched_getaffinity(0)), len(rows)) or 1
        self.files = len(rows)
        self.bytes = sum(row.size for row in rows.values() if row.size > 0)
        self._pool = ThreadPoolExecutor(count)
        self._parts: list[tuple[list[str], Future[list[str]]]] = []
        for part in _balance(list(rows.values()), count):
            request = "".join(f"{row.algorithm}\0{row.size}\0{prefix}/{row.path}\0" for row in part)
            future = self._pool.submit(_work, request.encode("utf-8", "surrogateescape"))
            self._parts.append(([row.path for row in part], future))

    def result(self) -> Mapping[str, str]:
        """Digest (or ``!reason``) by path. Raises :class:`orbit.errors.CommandFailed` when a worker died."""
        found: dict[str, str] = {}
        with self._pool:
            for paths, future in self._parts:
                found.update(zip(paths, future.result(), strict=True))
        return found


def _balance(rows: list[RecordRow], count: int) -> list[list[RecordRow]]:
    """Parts of about equal cost, big files first."""
    rows.sort(key=lambda row: -row.size)
    parts: list[list[RecordRow]] = [[] for _ in range(count)]
    load = [0] * count
    for row in rows[:BIG_FILES]:
        least = load.index(min(load))
        parts[least].append(row)
        load[least] += row.size + PER_FILE_BYTES
    for number, part in enumerate(parts):
        part.extend(rows[BIG_FILES + number :: count])
    return [part for part in parts if part]


def _work(request: bytes) -> list[str]:
    argv = [sys.executable, "-I", "-S", hash_worker.__file__]
    return run(argv, doing="hashing installed files", stdin=request).stdout.decode().splitlines()
