"""What people see while work goes on: short lines on stderr, with or without a terminal. stdout is for results only."""

from __future__ import annotations

import sys
import threading
import time
from typing import Protocol


class Progress(Protocol):
    """Told what happens; decides how to show it. Stages take one and never print."""

    def step(self, text: str) -> None:
        """Something begins or is worth a line."""

    def advance(self, what: str, done: int, total: int) -> None:
        """Work goes on: ``done`` of ``total`` (any unit the text names)."""


class Silent:
    """The default: shows nothing."""

    def step(self, text: str) -> None:
        """Nothing."""

    def advance(self, what: str, done: int, total: int) -> None:
        """Nothing."""


class Console:
    """Lines on stderr; progress at most once every ``every_s`` seconds so that a log file stays readable.

    Threads may share one: lines never mix.
    """

    def __init__(self, prefix: str = "", every_s: float = 5.0) -> None:
        self.prefix = prefix
        self.every_s = every_s
        self._began = time.monotonic()
        self._last = 0.0
        self._lock = threading.Lock()

    def step(self, text: str) -> None:
        """Print one line with the seconds since the start."""
        line = f"{time.monotonic() - self._began:7.1f}s  {self.prefix}{text}\n"
        with self._lock:
            sys.stderr.write(line)
            sys.stderr.flush()

    def advance(self, what: str, done: int, total: int) -> None:
        """Print a progress line when the last one is old enough."""
        now = time.monotonic()
        with self._lock:
            if now - self._last < self.every_s:
                return
            self._last = now
        share = f" ({100 * done // total} %)" if total else ""
        self.step(f"{what}: {done} of {total}{share}")
