"""Clocks of two nodes, compared while they meet. Nothing in Orbit depends on them; the difference is judged."""

from __future__ import annotations

from dataclasses import dataclass

from orbit.core.amounts import format_seconds
from orbit.launch.preflight.model import Check
from orbit.launch.preflight.rules import Limits
from orbit.launch.preflight.say import failed, passed, warned

NAME = "clock"


@dataclass(frozen=True, slots=True)
class Skew:
    """How far another clock is ahead of ours, in seconds, and how far that can be wrong."""

    seconds: float
    error: float


def skew(asked: float, theirs: float, answered: float) -> Skew:
    """Of a clock that said ``theirs`` (Unix time) between our ``asked`` and ``answered`` (ours, Unix time).

    The answer is taken to be from the middle; it cannot be wrong by more than half the round trip (RFC 5905, 8).
    """
    return Skew(theirs - (asked + answered) / 2, abs(answered - asked) / 2)


def judge_clock(found: Skew, limits: Limits, *, whose: str) -> Check:
    """The check ``clock``: ``found`` is the clock of ``whose`` against the first node's."""
    apart = max(0.0, abs(found.seconds) - found.error)
    direction = "ahead of" if found.seconds > 0 else "behind"
    text = f"the clock of {whose} is {format_seconds(abs(found.seconds))} {direction} the first node's"
    fix = "start chrony or systemd-timesyncd on the node (timedatectl, chronyc tracking)"
    facts = {"seconds": f"{found.seconds:.3f}", "error": f"{found.error:.3f}"}
    if apart >= limits.clock_failed_s:
        limit = format_seconds(limits.clock_failed_s)
        return failed(NAME, f"{text}, {limit} are allowed: tokens, certificates and file times go wrong", fix, **facts)
    if apart >= limits.clock_warning_s:
        return warned(NAME, text, fix, **facts)
    within = max(abs(found.seconds), found.error)
    return passed(NAME, f"the clock of {whose} is that of the first node within {within:.2f} s", **facts)
