"""What people see while work goes on: short lines on stderr, with or without a terminal. stdout is for results only."""

from __future__ import annotations

import sys
import threading
import time
from typing import Protocol

from orbit.core.amounts import format_bytes, format_seconds

BYTES = "bytes"


class Progress(Protocol):
    """Told what happens; decides how to show it. Stages take one and never print."""

    def step(self, text: str) -> None:
        """Something begins or is worth a line."""

    def advance(self, what: str, done: int, total: int, unit: str = "") -> None:
        """Work goes on: ``done`` of ``total`` things that ``what`` names, or with ``unit`` = :data:`BYTES` bytes."""


class Silent:
    """The default: shows nothing."""

    def step(self, text: str) -> None:
        """Nothing."""

    def advance(self, what: str, done: int, total: int, unit: str = "") -> None:
        """Nothing."""


class Console:
    """Lines on stderr; progress at most once every ``every_s`` seconds so that a log file stays readable.

    Bytes come with how many there were a second since the last line about them, and the time that is left at that rate.
    Threads may share one: lines never mix.
    """

    def __init__(self, prefix: str = "", every_s: float = 5.0) -> None:
        self.prefix = prefix
        self.every_s = every_s
        self._began = time.monotonic()
        self._last = 0.0
        self._told: dict[str, tuple[float, int]] = {}
        """When a line about something was last printed, and how far it was."""
        self._lock = threading.Lock()

    def step(self, text: str) -> None:
        """Print one line with the seconds since the start."""
        line = f"{time.monotonic() - self._began:7.1f}s  {self.prefix}{text}\n"
        with self._lock:
            sys.stderr.write(line)
            sys.stderr.flush()

    def advance(self, what: str, done: int, total: int, unit: str = "") -> None:
        """Print a progress line when the last one is old enough."""
        now = time.monotonic()
        with self._lock:
            since, before = self._told.setdefault(what, (now, done))
            if now - self._last < self.every_s:
                return
            self._last = now
            self._told[what] = now, done
        share = f" ({100 * done // total} %)" if total else ""
        if unit != BYTES:
            self.step(f"{what}: {done} of {total}{share}")
            return
        of = f" of {format_bytes(total)}" if total else ""
        rate = (done - before) / (now - since) if now > since else 0.0
        speed = f", {format_bytes(round(rate))}/s" if rate > 0 else ""
        left = f", {format_seconds((total - done) / rate)} left" if rate > 0 and total > done else ""
        self.step(f"{what}: {format_bytes(done)}{of}{share}{speed}{left}")
