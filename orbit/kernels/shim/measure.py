"""Programs run and measured: processor time, memory, wall time, and what they said."""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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


def execute(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, capture: bool = False, out: bool = False
) -> Result:
    """Run a program to its end. ``capture`` keeps both streams, ``out`` standard output only; else they are ours.

    A program that is not there ends with status 127, as in a shell.
    """
    caught = [os.memfd_create(f"orbit-{name}") if wanted else -1 for name, wanted in
              (("out", capture or out), ("err", capture))]  # fmt: skip
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


def become(argv: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    """Turn into another program: nothing is measured, and nothing of us is left in between."""
    os.execve(argv[0], list(argv), os.environ if env is None else env)  # noqa: S606 - there is no shell here


def replay(out: bytes, err: bytes) -> None:
    """Say what a program said, on our own streams."""
    for handle, text in ((1, out), (2, err)):
        view = memoryview(text)
        while view:
            view = view[os.write(handle, view) :]
