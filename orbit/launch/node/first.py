"""Node 0 of a job: gathers the others, decides, has Ray up everywhere, runs the command, ends the job everywhere."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbit.core.amounts import format_seconds
from orbit.core.files import write_atomic
from orbit.core.proc import running
from orbit.core.records import indented_json
from orbit.errors import ExitCode, OrbitError
from orbit.launch.node.command import (
    ask_to_end,
    cluster_variables,
    command_time,
    finish,
    plain_environment,
    proxy_free,
)
from orbit.launch.node.here import (
    Failing,
    Here,
    Outcome,
    Over,
    Told,
    ended,
    failing,
    free_port,
    node_name,
    own_host_names,
)
from orbit.launch.node.meeting.folder import announced, own_addresses, reachable
from orbit.launch.node.meeting.host import Host, Lost
from orbit.launch.node.meeting.messages import (
    Across,
    Bring,
    End,
    Gone,
    Joined,
    Message,
    Report,
    Summed,
    Trouble,
    Verdict,
)
from orbit.launch.node.meeting.proof import ray_token
from orbit.launch.node.options import folder_of
from orbit.launch.preflight.crowd import JobRules, decide
from orbit.launch.preflight.model import Check, NodeReport, State
from orbit.launch.preflight.table import render
from orbit.launch.ray.spec import Seen, Up

READY_S = 300.0
"""For Ray on all nodes, from the moment the head is up."""
POLL_S = 0.25
TELL_EVERY_S = 15.0
GONE_S = 20.0
"""For the others to clear up; they do it whether we wait or not."""


@dataclass(frozen=True, slots=True)
class _Started:
    up: Up


@dataclass(frozen=True, slots=True)
class _CommandEnded:
    status: int


type _Event = Message | Lost | Told | Failing | _Started | _CommandEnded


@dataclass
class First:
    """The life of node 0."""

    here: Here
    host: Host
    fit: set[int] = field(default_factory=set)
    """Ranks the job goes on with."""
    joined: dict[int, str] = field(default_factory=dict)
    """Rank to Ray's id of its node."""
    reports: dict[int, NodeReport] = field(default_factory=dict)
    waiting_for_goodbye: set[int] = field(default_factory=set)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    async def live(self) -> Outcome:
        """From the first sign of life to the last."""
        self.here.signals.listen(self._put)
        try:
            with contextlib.ExitStack() as stack:
                try:
                    outcome = await self._run(stack)
                except Over as over:
                    outcome = over.outcome
                except OrbitError as error:
                    problem = failing(error)
                    outcome = Outcome(problem.status, f"node 0: {problem.reason}\n{problem.log}".rstrip())
                self._dismiss(outcome)
                await self._take_down()
            await self._goodbye()
            return outcome
        finally:
            for task in self.tasks:
                task.cancel()
            self.here.stop.now()
            await self.host.close()

    async def _run(self, stack: contextlib.ExitStack) -> Outcome:
        order = self.here.order
        if order.nodes > 1:
            stack.enter_context(self._open(await self.host.open(order.ports)))
        self._begin(self.here.watch(self._put))
        await self._gather(stack)
        await self._judge()
        await self._sum()
        if not order.ray:
            return await self._command(plain_environment(self.here.env, self.here.mark))
        nodes, up = await self._bring_up()
        return await self._command(self._command_env(nodes, up))

    # --- meeting ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _open(self, port: int) -> Iterator[None]:
        self.here.say.step(f"nodes meet at port {port}; {self.here.order.nodes - 1} more are awaited")
        folder = folder_of(self.here.order)
        if not folder:
            yield
            return
        with announced(Path(folder), self.here.token, attempt=self.host.attempt, addresses=own_addresses(), port=port):
            yield

    async def _gather(self, stack: contextlib.ExitStack) -> None:
        """Reports of all nodes, or of those that came in time."""
        order = self.here.order
        own = self._begin(self.here.check())
        deadline = time.monotonic() + order.late_minutes * 60
        told_at = time.monotonic()
        loaded = False
        while len(self.reports) < order.nodes:
            event = await self._next(min(deadline, told_at + TELL_EVERY_S) - time.monotonic(), also=own)
            if own.done() and 0 not in self.reports:
                self.reports[0] = own.result()
            if 0 in self.reports and order.ray and not loaded and self.reports[0].fit:
                stack.enter_context(self.here.loading_ray())
                loaded = True
            if event is not None:
                self._early(*event)
            if time.monotonic() >= deadline and 0 in self.reports:
                break
            if time.monotonic() - told_at >= TELL_EVERY_S:
                told_at = time.monotonic()
                self.here.say.step(f"waiting for {self._names(self._missing())}")
        self.host.closed = "the job has begun without it"

    def _early(self, rank: int, event: _Event) -> None:
        """What nodes say before the verdict."""
        if isinstance(event, Report):
            self.reports[rank] = event.report
            count, nodes = len(self.reports), self.here.order.nodes
            self.here.say.advance("nodes that came", count, nodes)
        elif isinstance(event, Lost):
            self.reports.pop(rank, None)
            self.host.members.pop(rank, None)
            self.here.say.step(f"node {rank} was lost before the start: {event.why}; it may come again")
        else:
            self._fatal(rank, event)

    def _missing(self) -> list[int]:
        return [rank for rank in range(self.here.order.nodes) if rank not in self.reports]

    def _names(self, ranks: Sequence[int]) -> str:
        shown = ", ".join(map(str, ranks[:20])) + (f" and {len(ranks) - 20} more" if len(ranks) > 20 else "")
        return f"node {shown}" if len(ranks) == 1 else f"nodes {shown}"

    async def _judge(self) -> None:
        """One table, one decision, an answer for every node."""
        order = self.here.order
        rules = JobRules(nodes=order.nodes, unfit=order.unfit, least=order.least)
        reports = [self.reports[rank] for rank in sorted(self.reports)]
        verdict = decide(reports, rules)
        sys.stderr.write(render(reports, verdict))
        sys.stderr.flush()
        if not verdict.go:
            status = ExitCode.MISSING if verdict.missing else ExitCode.FINDINGS
            raise Over(Outcome(status, f"the job does not start: {verdict.reason}", failed=False))
        self.fit = set(verdict.ranks)
        for rank in sorted(set(self.reports) - self.fit):
            reason = verdict.reason_of(rank)
            self.host.say(rank, Verdict(goes=False, reason=reason))
            self.host.say(rank, End(status=0, reason=f"left out: {reason}"))
            self.waiting_for_goodbye.add(rank)
        for rank in self.fit - {0}:
            self.host.say(rank, Verdict(goes=True))

    async def _sum(self) -> None:
        """All GPUs of all nodes that go on add numbers up once: nodes that are fit alone may not reach each other."""
        ranks = sorted(self.fit)
        if not self.here.order.gpus or len(ranks) < 2:
            return
        address = self._own_address()
        port = free_port(address)
        calls = [Across(address=address, port=port, node=node, nodes=len(ranks)) for node in range(len(ranks))]
        for rank, call in zip(ranks[1:], calls[1:], strict=True):
            self.host.say(rank, call)
        own = self._begin(self.here.across(calls[0]))
        checks: dict[int, Check] = {}
        while len(checks) < len(ranks):
            event = await self._next(None, also=own)
            if own.done() and 0 not in checks:
                checks[0] = own.result()
            if event is not None and isinstance(event[1], Summed):
                checks[event[0]] = event[1].check
            elif event is not None:
                self._lose(*event)
        bad = [rank for rank in ranks if checks[rank].state is State.FAILED]
        if bad:
            worst = checks[bad[0]]
            what = f"{worst.name}: {worst.message}; fix: {worst.fix}; seen by {self._names(bad)}"
            raise Over(Outcome(ExitCode.FINDINGS, f"the job does not start: {what}", failed=False))
        self.here.say.step(checks[0].message)

    # --- Ray ----------------------------------------------------------------------------------------------------------

    async def _bring_up(self) -> tuple[list[Seen], Up]:
        """Ray on every fit node, seen by the head."""
        ray = self.here.ray
        assert ray is not None
        began = time.monotonic()
        self.here.write_token(ray_token(self.here.token, self.host.attempt))
        self._begin(self._start())
        up: Up | None = None
        nodes: list[Seen] = []
        while up is None or len(nodes) < len(self.fit):
            if time.monotonic() - began > READY_S:
                raise Over(Outcome(ExitCode.MISSING, self._not_ready(nodes)))
            event = await self._next(POLL_S)
            if event is not None and isinstance(event[1], _Started):
                up = event[1].up
                self.joined[0] = up.node_id
                for rank in self.fit - {0}:
                    self.host.say(rank, Bring(address=up.address))
            elif event is not None and isinstance(event[1], Joined):
                self.joined[event[0]] = event[1].node_id
            elif event is not None:
                self._lose(*event)
            if up is not None and self.fit <= set(self.joined):
                nodes = self._ready(await ray.nodes())
        ray.forward_logs()
        took = format_seconds(time.monotonic() - began)
        self.here.say.step(f"Ray is up on {len(nodes)} node(s) at {up.address} after {took}")
        return nodes, up

    async def _start(self) -> None:
        assert self.here.ray is not None
        try:
            up = await self.here.ray.up(self.here.spec(ip=self._own_address()))
        except OrbitError as error:
            self._put(failing(error))
        else:
            self._put(_Started(up))

    def _own_address(self) -> str:
        """As the others reach it; the one that the first of them used."""
        used = [self.host.members[rank].here for rank in sorted(self.fit - {0}) if rank in self.host.members]
        return reachable(next(iter(used), "127.0.0.1"))

    def _ready(self, seen: Sequence[Seen]) -> list[Seen]:
        """The fit nodes that are alive with the GPUs they must have."""
        names = {node_name(rank) for rank in self.fit}
        gpus = self.here.order.gpus
        return [
            node
            for node in seen
            if node.alive and node.name in names and node.resources.get("GPU", 0) >= gpus and node.resources.get("CPU")
        ]

    def _not_ready(self, nodes: Sequence[Seen]) -> str:
        there = {node.name for node in nodes}
        missing = [rank for rank in sorted(self.fit) if node_name(rank) not in there]
        return f"Ray did not come up within {format_seconds(READY_S)} on {self._names(missing)}"

    # --- the command --------------------------------------------------------------------------------------------------

    def _command_env(self, nodes: Sequence[Seen], up: Up) -> dict[str, str]:
        file = self.here.folder.short / "cluster.json"
        ranks = {node_name(rank): rank for rank in self.fit}
        known = [
            {
                "rank": ranks[node.name],
                "host": self.reports[ranks[node.name]].host,
                "address": node.ip,
                "node_id": node.node_id,
                "cpus": int(node.resources.get("CPU", 0)),
                "gpus": int(node.resources.get("GPU", 0)),
            }
            for node in sorted(nodes, key=lambda node: ranks[node.name])
        ]
        write_atomic(
            file, indented_json({"address": up.address, "dashboard": up.dashboard, "nodes": known}), mode=0o600
        )
        base = self.here.ray_env | cluster_variables(up.address, nodes, file)
        return base | proxy_free(base, [*own_host_names(), *(node.ip for node in nodes)])

    async def _command(self, env: dict[str, str]) -> Outcome:
        order = self.here.order
        self.here.say.step("the command begins: " + " ".join(order.command)[:200])
        with running(order.command, doing="the command", env=env) as child:
            self.here.children.add(child.pid)
            watched = self._begin(self._wait(child))
            while True:
                event = await self._next(None)
                assert event is not None
                if isinstance(event[1], _CommandEnded):
                    return _command_outcome(event[1].status)
                reason = self._ending(*event)
                if reason is not None:
                    break
            watched.cancel()
            return await self._end_command(child, reason)

    async def _wait(self, child: Any) -> None:
        self._put(_CommandEnded(await ended(child)))

    async def _end_command(self, child: Any, reason: Outcome) -> Outcome:
        """The command is asked to end. Told to by the scheduler, its status is the job's; after a failure the job's is
        that of the failure, for a command that was cut short may well end with 0."""
        told = self.here.signals.first
        reached = ask_to_end(child)
        self.here.say.step(f"{reason.reason}: SIGTERM to the command (process {', '.join(map(str, reached))})")
        seconds = command_time(self.here.order.grace_seconds)
        done = asyncio.ensure_future(finish(child, seconds))
        while not done.done() and not self.here.signals.again:
            await asyncio.wait({done}, timeout=0.1)
        status, in_time = await done if done.done() else (128 + signal.SIGKILL, False)
        done.cancel()
        late = "" if in_time else f"; the command did not end within {format_seconds(seconds)} and was killed"
        if told is not None:
            return Outcome(status if in_time else told.status, reason.reason + late, failed=not in_time)
        return Outcome(reason.status, f"{reason.reason}{late or f'; the command ended with status {status}'}")

    def _ending(self, rank: int, event: _Event) -> Outcome | None:
        """Why the command must end now; None: it goes on."""
        try:
            self._lose(rank, event)
        except Over as over:
            return over.outcome
        return None

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _lose(self, rank: int, event: _Event) -> None:
        """A node that is lost ends the job, unless the recipe lets it go on with those that are left."""
        order = self.here.order
        if isinstance(event, (Report, Summed, Joined, Gone)):
            return
        if rank != 0 and rank not in self.fit:
            return
        spare = order.unfit == "leave-out" and order.least and len(self.fit) > order.least
        if isinstance(event, Lost | Trouble) and rank != 0 and spare and self.joined:
            why = event.why if isinstance(event, Lost) else event.reason
            self.fit.discard(rank)
            self.host.say(rank, End(status=0, reason="left out: it failed, and the job goes on without it"))
            self.host.forget(rank)
            self.here.say.step(f"the job goes on without node {rank}: {why}")
            return
        self._fatal(rank, event)

    def _fatal(self, rank: int, event: _Event) -> None:
        """Raise :class:`Over` for what ends the job."""
        where = f"node {rank} ({self.reports[rank].host})" if rank in self.reports else f"node {rank}"
        if isinstance(event, Told):
            raise Over(Outcome(event.status, f"node 0: {event.reason}", failed=False))
        if isinstance(event, Lost):
            raise Over(Outcome(ExitCode.MISSING, f"{where} is lost: {event.why}"))
        if isinstance(event, Trouble):
            log = f"\n{event.log}" if event.log else ""
            raise Over(Outcome(ExitCode.MISSING, f"{where}: {event.reason}{log}", failed=not event.leaving))
        if isinstance(event, Failing):
            log = f"\n{event.log}" if event.log else ""
            raise Over(Outcome(event.status, f"{where}: {event.reason}{log}"))

    # --- the end ------------------------------------------------------------------------------------------------------

    def _dismiss(self, outcome: Outcome) -> None:
        for rank, member in self.host.members.items():
            if not member.gone and rank not in self.waiting_for_goodbye:
                self.host.say(rank, End(status=outcome.status, reason=outcome.reason, failed=outcome.failed))
                self.waiting_for_goodbye.add(rank)
        self.host.closed = f"the job has ended: {outcome.reason}"

    async def _take_down(self) -> None:
        if self.here.ray:
            await self.here.ray.down()

    async def _goodbye(self) -> None:
        """Wait until the others have nothing left running, or a while."""
        deadline = time.monotonic() + GONE_S
        while self.waiting_for_goodbye and time.monotonic() < deadline and not self.here.signals.again:
            event = await self._next(min(0.5, deadline - time.monotonic()))
            if event is not None and isinstance(event[1], Gone | Lost):
                self.host.forget(event[0])
                self.waiting_for_goodbye.discard(event[0])
            self.waiting_for_goodbye -= {rank for rank, each in self.host.members.items() if each.gone}
        if self.waiting_for_goodbye:
            self.here.say.step(f"{self._names(sorted(self.waiting_for_goodbye))} did not say goodbye")

    # --- plumbing -----------------------------------------------------------------------------------------------------

    def _put(self, event: Told | Failing | _Started | _CommandEnded) -> None:
        self.host.events.put_nowait((0, event))  # type: ignore[arg-type] # this node's own, beside what others say

    def _begin[T](self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self.tasks.append(task)
        return task

    async def _next(self, seconds: float | None, *, also: asyncio.Task[Any] | None = None) -> tuple[int, Any] | None:
        """The next event; None after ``seconds``, or when ``also`` has ended."""
        getting = asyncio.ensure_future(self.host.events.get())
        waiting: set[asyncio.Future[Any]] = {getting}
        if also is not None and not also.done():
            waiting.add(also)
        try:
            timeout = None if seconds is None else max(0.0, seconds)
            await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not getting.done():
                getting.cancel()
        return getting.result() if getting.done() and not getting.cancelled() else None


def _command_outcome(status: int) -> Outcome:
    if status == 0:
        return Outcome(0, "the command has ended well", failed=False)
    if status > 128 and status - 128 in signal.valid_signals():
        return Outcome(status, f"the command was ended by {signal.Signals(status - 128).name}")
    return Outcome(status, f"the command ended with status {status}")
