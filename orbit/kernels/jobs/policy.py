"""Which waiting steps start now: a pure function of what runs, what waits and what the machine has.

The rules, in the order they bind:

1. Never more running steps than cores; the sum of what they are charged never grows beyond the memory that is ours.
   A step is charged what it reserved, or what it really holds when that is more.
2. Memory that is ours is the budget, or what the machine has left over for us right now (minus a margin) when that
   is less: other programs come first.
3. When nothing runs one step starts whatever it needs; a step larger than the machine runs alone.
4. Whoever has waited longer than the patience goes first, longest wait first. If the oldest of them does not fit, room
   is kept for it: a younger step may start only beside it, in what it does not need. What was running before drains,
   so it starts after at most the longest step that ran then.
5. Among the others: the package with the fewest running steps, then the step with the longest way to the end of its
   unit (longest processing time first), each second of waiting counting as a second of it. What does not fit is passed
   over.

So nobody starves: by (4) every step is at some time the oldest, and by (3) the machine drains for it if it must.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

GIB = 2**30
PATIENCE_S = 600.0
"""Longer than nearly every single step, so that the long ones first (LPT) is the rule and first come the exception."""
MARGIN_SHARE, MARGIN_LEAST, MARGIN_MOST = 0.05, GIB // 2, 4 * GIB
"""Memory that is left alone: a share of the machine, within bounds."""
RESERVE_SHARE = 4
"""A package keeps one step in reserve per this many cores, at least two."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What all steps together may use."""

    cores: int
    budget_bytes: int
    """The sum of reservations stays below it."""
    margin_bytes: int
    """Stays free for others when a step starts."""
    patience_s: float = PATIENCE_S
    """After this wait a step goes before all younger ones, and room is kept for it."""


@dataclass(frozen=True, slots=True)
class Running:
    """A step that was admitted."""

    recipe: str
    reserved_bytes: int
    used_bytes: int
    """What it really holds, by the latest look; 0 when it has just started."""
    age_s: float
    """Seconds since it was admitted."""

    @property
    def charge_bytes(self) -> int:
        """What it counts for."""
        return max(self.reserved_bytes, self.used_bytes)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A step that asks."""

    number: int
    """Unique, in the order of arrival: decides between equals."""
    recipe: str
    need_bytes: int
    expected_s: float
    """Seconds to the end of its translation unit: this step and those that follow it."""
    waited_s: float


@dataclass(frozen=True, slots=True)
class State:
    """Everything a decision depends on."""

    limits: Limits
    running: tuple[Running, ...]
    waiting: tuple[Waiting, ...]
    capacity_bytes: int
    """Memory the machine can give now plus what the running steps hold. Neither a start nor an end of a step changes
    it, so a look at the machine once in a while is enough."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why the next step does not start."""

    number: int
    of: Literal["cores", "memory"]
    need_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now."""

    start: tuple[int, ...] = ()
    """Numbers of the steps that start, in order."""
    alone: bool = False
    """The one that starts does not fit; it runs because nothing else does."""
    held: int | None = None
    """The step that room is kept for."""
    shortage: Shortage | None = None
    """What the next one waits for; None when nobody waits."""


def decide(state: State) -> Decision:
    """The steps of ``state`` that start now. Does not depend on the order of ``running`` and ``waiting``."""
    limits = state.limits
    room = _Room(free_bytes(state), limits.cores - len(state.running))
    lane = _Room(2**62, limits.cores)
    shares = Counter(step.recipe for step in state.running)
    patient = {step.number: step for step in state.waiting if step.waited_s < limits.patience_s}
    start: list[int] = []
    held: Waiting | None = None

    def take(step: Waiting) -> None:
        start.append(step.number)
        shares[step.recipe] += 1
        room.take(step.need_bytes)
        lane.take(step.need_bytes)

    late = [step for step in state.waiting if step.number not in patient]
    for step in sorted(late, key=lambda one: (-one.waited_s, one.number)):
        if room.fits(step.need_bytes) and lane.fits(step.need_bytes):
            take(step)
        elif held is None and room.slots > 0:
            held = step
            # it has the next slot, and room beside everything that started since its patience ended
            young = [one for one in state.running if one.age_s < step.waited_s - limits.patience_s]
            lane = _Room(
                _ours(state) - step.need_bytes - sum(one.charge_bytes for one in young) - _sum(state, start),
                limits.cores - 1 - len(young) - len(start),
            )
    while room.slots > 0 and patient:
        fitting = [s for s in patient.values() if room.fits(s.need_bytes) and lane.fits(s.need_bytes)]
        if not fitting:
            break
        best = min(fitting, key=lambda one: (shares[one.recipe], -(one.expected_s + one.waited_s), one.number))
        take(patient.pop(best.number))

    if not start and not state.running and state.waiting:
        lone = held or min(state.waiting, key=lambda one: (one.need_bytes, -one.waited_s, one.number))
        return Decision(start=(lone.number,), alone=True, shortage=_shortage(state, (lone.number,), None, room))
    number = held.number if held else None
    return Decision(start=tuple(start), held=number, shortage=_shortage(state, start, held, room))


def free_bytes(state: State) -> int:
    """Memory that is ours and not charged to a running step; negative when steps hold more than they reserved."""
    return _ours(state) - sum(step.charge_bytes for step in state.running)


def _ours(state: State) -> int:
    return min(state.limits.budget_bytes, state.capacity_bytes - state.limits.margin_bytes)


def _sum(state: State, numbers: Iterable[int]) -> int:
    chosen = set(numbers)
    return sum(step.need_bytes for step in state.waiting if step.number in chosen)


def _shortage(state: State, start: Iterable[int], held: Waiting | None, room: _Room) -> Shortage | None:
    chosen = set(start)
    rest = [step for step in state.waiting if step.number not in chosen]
    if not rest:
        return None
    step = held or min(rest, key=lambda one: (one.need_bytes, one.number))
    return Shortage(
        number=step.number,
        of="memory" if room.slots > 0 else "cores",
        need_bytes=step.need_bytes,
        free_bytes=max(0, room.free),
    )


class _Room:
    """What is left while a decision is made."""

    def __init__(self, free: int, slots: int) -> None:
        self.free = free
        self.slots = slots

    def fits(self, need: int) -> bool:
        return self.slots > 0 and need <= self.free

    def take(self, need: int) -> None:
        self.free -= need
        self.slots -= 1


def machine_limits(cores: int, total_bytes: int) -> Limits:
    """Limits for a machine: all cores, all memory but a margin of 5 % (at least half a GiB, at most 4 GiB)."""
    margin = int(min(MARGIN_MOST, max(MARGIN_LEAST, MARGIN_SHARE * total_bytes)))
    return Limits(cores=max(1, cores), budget_bytes=max(GIB // 4, total_bytes - margin), margin_bytes=margin)


def inflight(cores: int) -> int:
    """How many compile calls a package's own build tool (ninja's ``-j``, ``MAX_JOBS``) may keep open.

    Not how many run: the job server decides that. A few more than cores, so that it can choose (the long ones first,
    a small one while a large one waits for memory) and the next step is there when one ends; not many more, because
    every open call costs a process and its preprocessed text on disk.
    """
    return cores + max(2, math.ceil(cores / RESERVE_SHARE))


def packages_at_once(cores: int) -> int:
    """How many packages are built at the same time: enough that one's link or configure step leaves no core idle.

    Each costs a Python with torch imported (about half a GiB) that is not admitted, so not all of them.
    """
    return min(4, 1 + math.ceil(cores / 2))
