"""What can block for ever (a dead file server, a resolver, a driver) is asked in a thread that may be left behind.

A system call on a dead file server cannot be interrupted, neither by a signal nor by a time-out of its own. So nobody
waits for it: the thread is a daemon, and the process it may have started is not waited for either.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable


class LateError(Exception):
    """No answer in time; the text says so with the limit."""


class Answer[T]:
    """The value of a call that runs beside us."""

    def __init__(self, call: Callable[[], T], name: str) -> None:
        self._call = call
        self._done = threading.Event()
        self._began = time.monotonic()
        self._value: T | None = None
        self._error: BaseException | None = None
        context = contextvars.copy_context()  # who stops the caller's programs stops those of the thread, too
        threading.Thread(target=context.run, args=(self._work,), name=name, daemon=True).start()

    def _work(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:  # noqa: BLE001 - raised again where the value is asked for
            self._error = error
        self._done.set()

    def value(self, limit_s: float) -> T:
        """The value, at most ``limit_s`` seconds after the call began. Raises :class:`LateError`, or what it raised."""
        self._done.wait(max(0.0, self._began + limit_s - time.monotonic()))
        if not self._done.is_set():
            raise LateError(f"no answer within {limit_s:g} s")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value] # set when there is no error


def aside[T](call: Callable[[], T], name: str = "preflight") -> Answer[T]:
    """Begin ``call`` in a thread that nobody has to wait for."""
    return Answer(call, name)
