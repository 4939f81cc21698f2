"""The words of the protocol and the record of a finished step.

A client (the compiler shim) connects for one step and sends one JSON line, :class:`Ask`. The server answers ``go`` when
the step may start, or ``error: TEXT`` and closes. When the step has ended the client sends one JSON line,
:class:`Report`, and closes. A connection that closes before is a step that died. ``cached`` steps are only counted: the
client sends its line and closes.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from orbit.core.records import Record
from orbit.errors import InputError

type Step = Literal["cudafe", "cicc", "ptxas", "host", "link"]
GO = b"go\n"
LINE_BYTES = 1 << 16
"""A longer line is refused."""
PROBE = "probe"
"""Source of what a build script tries its compiler with: a step, but no translation unit of the package."""
FOLLOWING: dict[str, tuple[str, ...]] = {"cudafe": ("host",), "cicc": ("ptxas", "host"), "ptxas": ("host",)}
"""What a translation unit still needs after a step, in nvcc's order (``nvcc --dryrun``)."""


class Key(NamedTuple):
    """One step of a package."""

    step: str
    source: str
    """Relative to the build."""
    arch: str
    """``sm_90a``; empty for host code."""


class Ask(Record, frozen=True, kw_only=True):
    """A step that wants to start, or one whose result was there already."""

    recipe: str
    step: Step
    source: str
    arch: str = ""
    cached: bool = False

    @property
    def key(self) -> Key:
        """Which step it is."""
        return Key(self.step, self.source, self.arch)


class Report(Record, frozen=True, kw_only=True):
    """What a step cost, as the shim measured it."""

    seconds: float
    cpu_s: float
    """User and system time of the program and what it started."""
    peak_bytes: int
    """Highest resident memory."""
    status: int
    """Exit status; 128 + N or -N when signal N ended it."""


class Line(Record, frozen=True, kw_only=True):
    """One step that ended. Times are seconds since the server started."""

    recipe: str
    step: Step
    source: str
    arch: str
    cached: bool = False
    """Its result was there already: nothing ran, all numbers are 0."""
    asked_s: float
    began_s: float = 0.0
    ended_s: float
    reserved_bytes: int = 0
    report: Report | None = None
    """None when it was cached, or died without a report."""

    @property
    def key(self) -> Key:
        """Which step it was."""
        return Key(self.step, self.source, self.arch)

    @property
    def ok(self) -> bool:
        """Whether its result is there."""
        return self.cached or (self.report is not None and self.report.status == 0)


def read_ask(line: bytes) -> Ask:
    """Parse a client's first line. Raises :class:`InputError` with a sentence for the client."""
    return _decode(line, Ask)


def read_report(line: bytes) -> Report:
    """Parse a client's second line. Raises :class:`InputError` when it is none or its numbers cannot be."""
    report = _decode(line, Report)
    if not (0 <= report.seconds < 1e9 and 0 <= report.cpu_s < 1e12 and 0 <= report.peak_bytes < 2**60):
        raise InputError("a report with impossible numbers")
    return report


def _decode[T](line: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"not a line of this protocol: {error}") from None
