"""Every node of a job but the first: says what it found, does what the first node says, and ends when that does."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbit.errors import ExitCode, OrbitError
from orbit.launch.node.here import Failing, Here, Outcome, Over, Told, failing
from orbit.launch.node.meeting.folder import announced_places, reachable
from orbit.launch.node.meeting.guest import Guest, Places
from orbit.launch.node.meeting.host import Lost
from orbit.launch.node.meeting.messages import Across, Bring, End, Gone, Joined, Report, Summed, Trouble, Verdict
from orbit.launch.node.meeting.proof import ray_token
from orbit.launch.node.options import folder_of
from orbit.launch.preflight.clock import judge_clock, skew
from orbit.launch.preflight.model import NodeReport
from orbit.launch.preflight.rules import load_rules
from orbit.launch.preflight.run import with_check
from orbit.launch.ray.spec import Up

HEAR_S = 60.0
"""For the first node's last word, when this one cannot go on."""


@dataclass(frozen=True, slots=True)
class _Started:
    up: Up


@dataclass
class Other:
    """The life of a node that is not the first."""

    here: Here
    guest: Guest
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    deadline: float | None = None
    """When this node ends without having been told to by the first one."""
    parting: Outcome | None = None
    """How it ends then."""

    async def live(self) -> Outcome:
        """From the first sign of life to the last."""
        self.here.signals.listen(self._put)
        try:
            with contextlib.ExitStack() as stack:
                try:
                    await self._meet()
                    outcome = await self._serve(stack)
                except Over as over:
                    outcome = over.outcome
                except OrbitError as error:
                    problem = failing(error)
                    outcome = Outcome(problem.status, f"{problem.reason}\n{problem.log}".rstrip(), failed=False)
                if self.here.ray:
                    await self.here.ray.down()
            self.guest.say(Gone())
            return outcome
        finally:
            for task in self.tasks:
                task.cancel()
            self.here.stop.now()
            await self.guest.close()

    async def _meet(self) -> None:
        """Preflight and first meeting; a signal ends either."""
        began = time.monotonic()
        report = await self._unless_told(self.here.check())
        left = self.here.order.late_minutes * 60 - (time.monotonic() - began)
        await self._unless_told(self.guest.meet(max(left, self.here.times.handshake)))
        self.here.say.step(f"met the first node at {self.guest.there}")
        self.guest.say(Report(report=self._with_clock(report)))

    def _with_clock(self, report: NodeReport) -> NodeReport:
        """The report with what the handshake told of the two clocks."""
        asked, theirs, answered = self.guest.skew
        found = skew(asked, theirs, answered)
        ours = type(found)(-found.seconds, found.error)  # of this node against the first one's
        check = judge_clock(ours, load_rules().limits, whose=f"node {self.here.rank}")
        return with_check(report, check)

    async def _serve(self, stack: contextlib.ExitStack) -> Outcome:
        if self.here.order.ray:
            stack.enter_context(self.here.loading_ray())
        self._begin(self.here.watch(self._put))
        while True:
            left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
            try:
                async with asyncio.timeout(left):
                    event: Any = await self.guest.events.get()
            except TimeoutError:
                assert self.parting is not None
                return self.parting
            outcome = self._hear(event)
            if outcome is not None:
                return outcome

    def _hear(self, event: Any) -> Outcome | None:
        """One event; how this node ends, if it does now."""
        match event:
            case End():
                return Outcome(event.status, event.reason, event.failed)
            case Lost():
                return self.parting or Outcome(ExitCode.MISSING, f"the first node is lost: {event.why}")
            case Verdict(goes=False):
                self.here.say.step(f"left out: {event.reason}")
            case Across():
                self._begin(self._sum(event))
            case Bring():
                self._begin(self._start(event.address))
            case _Started():
                self.guest.say(Joined(node_id=event.up.node_id))
                if self.here.ray:
                    self.here.ray.forward_logs()
            case Told():
                self.here.say.step(f"{event.reason}; the first node is told")
                self.guest.say(Trouble(reason=event.reason, leaving=True))
                self._part(self.here.order.grace_seconds * 0.9, Outcome(event.status, event.reason, failed=False))
            case Failing():
                self.here.say.step(event.reason)
                self.guest.say(Trouble(reason=event.reason, log=event.log))
                self._part(HEAR_S, Outcome(event.status, event.reason))
        return None

    def _part(self, seconds: float, outcome: Outcome) -> None:
        if self.parting is None:
            self.parting, self.deadline = outcome, time.monotonic() + seconds

    async def _sum(self, where: Across) -> None:
        """The sum over all GPUs, and what this node saw of it."""
        try:
            self.guest.say(Summed(check=await self.here.across(where)))
        except OrbitError as error:
            self._put(failing(error))

    async def _start(self, address: str) -> None:
        """Ray on this node, for the head at ``address``, where this node has found the first one."""
        assert self.here.ray is not None
        try:
            self.here.write_token(ray_token(self.here.token, self.guest.attempt))
            up = await self.here.ray.up(self.here.spec(ip=reachable(self.guest.here), address=address))
        except OrbitError as error:
            self._put(failing(error))
        else:
            self._put(_Started(up))

    async def _unless_told[T](self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``; a signal comes first. Raises :class:`Over` then."""
        task = self._begin(work)
        while not task.done():
            told = self.here.signals.first
            if told:
                task.cancel()
                raise Over(Outcome(told.status, f"before the job began, {told.reason}", failed=False))
            await asyncio.wait({task}, timeout=0.1)
        return task.result()

    def _put(self, event: Told | Failing | _Started) -> None:
        self.guest.events.put_nowait(event)  # type: ignore[arg-type] # this node's own, beside what is said

    def _begin[T](self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self.tasks.append(task)
        return task


def places_of(here: Here) -> Places:
    """Where the first node may be: its host at each port, or what it wrote into the folder."""
    folder = folder_of(here.order)
    if folder:
        return lambda: announced_places(Path(folder), here.token)
    return lambda: [(here.head, port) for port in here.order.ports]
