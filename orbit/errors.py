"""Every way Orbit stops early, each with its own exit code.

A message says what is wrong, where, and what to do next. Nothing else in the package calls ``sys.exit`` or prints a
traceback for a user's mistake: ``orbit.cli`` catches :class:`OrbitError` at the edge and turns it into one paragraph.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a process exit status of Orbit means."""

    OK = 0
    FINDINGS = 1
    """A check ran and found something, or a smoke check failed."""
    USAGE = 2
    """Bad usage or bad input: a flag, a TOML file, a target that is not what it claims."""
    MISSING = 3
    """A tool, an engine or a source that is needed cannot be had."""
    REFUSED = 4
    """Orbit declined: another run holds the lock, an unsafe or unwritable path, a full disk."""
    INTERNAL = 70
    """A defect in Orbit itself."""


DISK_FULL = ("No space left on device", "Disk quota exceeded")
"""How the C library names ENOSPC and EDQUOT; programs print it as it is."""


class OrbitError(Exception):
    """Base of all expected failures.

    ``what`` is one sentence (what and where); ``fix`` is the next step for the person reading it.
    """

    code: ExitCode = ExitCode.INTERNAL

    def __init__(self, what: str, *, fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}\n  fix: {self.fix}" if self.fix else self.what


class CheckFailed(OrbitError):
    """A stage did its work and the answer is no."""

    code = ExitCode.FINDINGS


class InputError(OrbitError):
    """A file, a flag or a target is not usable as given."""

    code = ExitCode.USAGE


class MissingError(OrbitError):
    """A tool, an engine, a source or the network is needed and not there."""

    code = ExitCode.MISSING


class RefusedError(OrbitError):
    """The work could be done but must not be: lock held, unsafe path, no room."""

    code = ExitCode.REFUSED


class CommandFailed(CheckFailed):
    """A program Orbit ran ended with a non-zero status.

    ``tail`` is the end of its output, so the cause is on the screen and not only in a log file. Whatever program it
    was: when its output names a full disk, that is the cause, and the code is the one of a full disk.
    """

    def __init__(self, what: str, *, argv: list[str], status: int, tail: str, fix: str = "") -> None:
        if any(sign in tail for sign in DISK_FULL):
            self.code = ExitCode.REFUSED
            fix = "free some room (nothing half-written was kept) and run the same command again"
        super().__init__(what, fix=fix)
        self.argv = argv
        self.status = status
        self.tail = tail

    def __str__(self) -> str:
        lines = "\n".join(f"  | {line}" for line in self.tail.splitlines())
        return f"{super().__str__()}\n{lines}" if lines else super().__str__()
