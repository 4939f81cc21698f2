"""From what a check's process left behind to a result. Pure: no process, no file, no driver is touched here."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orbit.smoke.model import FAILED, NEEDS_DRIVER, PASSED, Check, CheckResult

DRIVER_LIBRARY = "libcuda.so.1"
MISSING_DRIVER = re.compile(
    r"libcuda\.so(\.1)?: cannot open shared object file|needs libcuda\.so\.1"
    r"|libcuda\.so cannot found|Could not load library libcuda",
    re.IGNORECASE,
)
"""How loaders say that the NVIDIA driver is absent: glibc's dlopen, orbit_probe, Triton and torch's nvrtc stub.

Only texts that name the driver library count. "Could not load any common_ops library" or "CUDA error" alone do not:
those are also what a broken build says.
"""
TAIL_CHARACTERS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a check's process left behind."""

    status: int
    """Exit status; negative for a signal, as :mod:`subprocess` says it."""
    seconds: float
    answered: bool = False
    """Whether the process wrote its answer before it ended."""
    error: str = ""
    """The failure the process reported, empty when it reported success."""
    chain: str = ""
    """Every exception in the chain of causes, so a cause hidden behind a vague message is seen."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    output: str = ""
    timed_out: bool = False
    limit: str = ""
    """Which budget was exceeded, in words, when it was stopped for that."""
    peak_mb: int = 0


def says_driver_is_missing(text: str) -> bool:
    """Whether ``text`` names the NVIDIA driver library as what is absent."""
    return MISSING_DRIVER.search(text) is not None


def judge(check: Check, outcome: Outcome, *, has_driver: bool) -> CheckResult:
    """The result of ``check``.

    ``expect = "needs-driver"`` is itself verified: on a machine without a driver an import that suddenly works, or
    that fails for any other reason, is a failure.
    """
    cause = _cause(outcome, check.timeout_s)
    lacks_driver = outcome.answered and says_driver_is_missing(f"{outcome.error}\n{outcome.chain}")
    if check.expect == NEEDS_DRIVER and not has_driver:
        if not cause:
            return _result(check, outcome, FAILED, f"worked without {DRIVER_LIBRARY}, which it is declared to need")
        if lacks_driver:
            return _result(check, outcome, NEEDS_DRIVER, f"needs {DRIVER_LIBRARY}, and fails for that reason only")
        return _result(check, outcome, FAILED, f"expected: needs {DRIVER_LIBRARY}; got: {cause}")
    if not cause:
        return _result(check, outcome, PASSED, str(outcome.facts.get("summary", "")))
    if lacks_driver:
        cause = f"needs {DRIVER_LIBRARY} (the NVIDIA driver), which the list does not declare: {cause}"
    return _result(check, outcome, FAILED, cause)


def _cause(outcome: Outcome, timeout_s: float) -> str:
    """Why the process did not succeed, in one line; empty when it did."""
    if outcome.limit or outcome.timed_out:
        return outcome.limit or f"no end after {timeout_s:.0f} s"
    if outcome.status < 0:
        return f"killed by {_signal_name(-outcome.status)}"
    if not outcome.answered:
        return f"ended with status {outcome.status} without an answer"
    if outcome.error:
        return outcome.error
    if outcome.status != 0:
        return f"answered, then ended with status {outcome.status}"
    return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _result(check: Check, outcome: Outcome, result: str, detail: str) -> CheckResult:
    return CheckResult(
        check=check.name,
        kind=check.kind,
        result=result,
        seconds=round(outcome.seconds, 2),
        detail=detail,
        facts=dict(outcome.facts),
        tail=outcome.output[-TAIL_CHARACTERS:] if result == FAILED else "",
        peak_mb=outcome.peak_mb,
    )
