"""Programs run and measured: processor time, memory, wall time, and what they said."""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn


class Result:
    """How a program ended and what it cost, with everything it started and waited for."""

    __slots__ = ("cpu_s", "err", "out", "peak_bytes", "seconds", "status")

    def __init__(
        self, status: int, seconds: float = 0.0, cpu_s: float = 0.0, peak_bytes: int = 0, *, out: bytes, err: bytes
    ) -> None:
        self.status = status
        """Exit status; 128 + N when signal N ended it."""
        self.seconds = seconds
        self.cpu_s = cpu_s
        """User and system time."""
        self.peak_bytes = peak_bytes
        """Highest resident memory of the largest process."""
        self.out = out
        self.err = err

    def numbers(self) -> dict[str, float | int]:
        """The measured fields of a log line or a report."""
        return {
            "seconds": round(self.seconds, 3),
            "cpu_s": round(self.cpu_s, 3),
            "peak_bytes": self.peak_bytes,
            "status": self.status,
        }


NOTHING = Result(0, out=b"", err=b"")
"""What a step costs that did not run."""


def execute(argv: Sequence[str], *, env: Mapping[str, str] | None = None, capture: bool = False) -> Result:
    """Run a program to its end. ``capture`` keeps both streams; else they are ours.

    A program that is not there ends with status 127, as in a shell.
    """
    caught = [os.memfd_create(f"orbit-{name}") if capture else -1 for name in ("out", "err")]
    actions = [(os.POSIX_SPAWN_DUP2, handle, number) for number, handle in enumerate(caught, 1) if handle >= 0]
    began = time.monotonic()
    try:
        try:
            child = os.posix_spawn(argv[0], list(argv), os.environ if env is None else env, file_actions=actions)
        except OSError as error:
            sys.stderr.write(f"orbit shim: {argv[0]}: {error.strerror}\n")
            return Result(127, out=b"", err=b"")
        _, status, used = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        said = [_read(handle) for handle in caught]
    finally:
        for handle in caught:
            if handle >= 0:
                os.close(handle)
    return Result(
        code if code >= 0 else 128 - code,
        time.monotonic() - began,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss * 1024,
        out=said[0],
        err=said[1],
    )


def _read(handle: int) -> bytes:
    if handle < 0:
        return b""
    pieces = []
    at = 0
    while piece := os.pread(handle, 1 << 24, at):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def stream(argv: Sequence[str], consume: Callable[[bytes], None]) -> int:
    """Run a program, hand over what it writes piece by piece, drop what it complains about; its status."""
    read, write = os.pipe2(os.O_CLOEXEC)
    actions = [
        (os.POSIX_SPAWN_DUP2, write, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        child = os.posix_spawn(argv[0], list(argv), os.environ, file_actions=actions)
        os.close(write)
        write = -1
        while piece := os.read(read, 1 << 20):
            consume(piece)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        for handle in (read, write):
            if handle >= 0:
                os.close(handle)


def become(argv: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    """Turn into another program: nothing is measured, and nothing of us is left in between."""
    os.execve(argv[0], list(argv), os.environ if env is None else env)  # noqa: S606 - there is no shell here


def replay(out: bytes, err: bytes) -> None:
    """Say what a program said, on our own streams."""
    for handle, text in ((1, out), (2, err)):
        view = memoryview(text)
        while view:
            view = view[os.write(handle, view) :]
