"""What the job server knows at one moment, for progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orbit.kernels.jobs.estimates import Estimator
from orbit.kernels.jobs.policy import Limits, Shortage
from orbit.kernels.jobs.steps import Key, Line

type Count = Callable[[], tuple[int, int] | None]
"""(done, total) translation units of a build; None while its build tool has said nothing."""


@dataclass(frozen=True, slots=True)
class PackageView:
    """One package as the server sees it now."""

    recipe: str
    estimator: Estimator
    count: tuple[int, int] | None
    """(done, total) translation units, as its build tool says."""
    finished: tuple[Line, ...]
    running: tuple[tuple[Key, float], ...]
    """Steps that run, each with its seconds so far."""
    waiting: int
    open: bool
    """Whether its build still runs."""


@dataclass(frozen=True, slots=True)
class ServerView:
    """All packages at one moment."""

    packages: tuple[PackageView, ...]
    limits: Limits
    shortage: Shortage | None
    """What the next waiting step waits for."""
    now_s: float
    """Seconds since the server started."""
