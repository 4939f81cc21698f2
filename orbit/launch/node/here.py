"""What one node program knows and holds: its order, its folder, who told it to end, what runs beside it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import cast

from orbit.core.amounts import format_bytes
from orbit.core.console import Console
from orbit.core.guard import GUARD
from orbit.core.proc import Child, Stop
from orbit.errors import ExitCode, OrbitError
from orbit.launch.fingerprint.take import take
from orbit.launch.node.meeting.messages import Across
from orbit.launch.node.meeting.times import Times
from orbit.launch.node.options import Order
from orbit.launch.preflight.across import check_across
from orbit.launch.preflight.model import Check, Demand, NodeReport
from orbit.launch.preflight.run import check_node
from orbit.launch.ray.cluster import RayFailed, RayNode, ray_environment, ray_node, write_token
from orbit.launch.ray.folders import Folder, free_bytes
from orbit.launch.ray.share import find_share
from orbit.launch.ray.spec import NodeSpec
from orbit.launch.ray.sweep import reap

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LOOK_S = 0.2
FULL_LOOK_S = 2.0
FULL_BYTES = 64 << 20
"""Room below which nothing can be written any more that somebody needs."""


@dataclass(frozen=True, slots=True)
class Told:
    """A signal came: the scheduler, or a person, wants this node to end."""

    number: int

    @property
    def reason(self) -> str:
        """For people."""
        return f"it was told to end ({signal.Signals(self.number).name})"

    @property
    def status(self) -> int:
        """As shells say it."""
        return 128 + self.number


@dataclass(frozen=True, slots=True)
class Failing:
    """Something of this node's own went wrong."""

    reason: str
    status: int = ExitCode.MISSING
    log: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the job ended, as far as this node is concerned."""

    status: int
    reason: str
    failed: bool = True
    """Whether logs are worth keeping."""


class Over(Exception):
    """The job is over; not an error of a user's, and never seen by one."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class Signals:
    """Signals from the first moment on: remembered, told to whoever listens, never fatal."""

    def __init__(self) -> None:
        self.first: Told | None = None
        self.again = False
        """A second Ctrl-C: a person who does not want to wait."""
        self._tell: Callable[[Told], object] | None = None
        self._at = 0.0

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """While the block runs."""
        old = {number: signal.signal(number, self._note) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def listen(self, tell: Callable[[Told], object]) -> None:
        """Have ``tell`` called in the running loop for the first signal, also for one that has come already."""
        loop = asyncio.get_running_loop()
        self._tell = lambda told: loop.call_soon_threadsafe(tell, told)
        if self.first:
            self._tell(self.first)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first, self._at = Told(number), now
            if self._tell:
                self._tell(self.first)
        elif number == signal.SIGINT and now - self._at > 1:
            self.again = True


@dataclass
class Here:
    """This node of a job."""

    order: Order
    rank: int
    env: Mapping[str, str]
    token: bytes
    mark: str
    """``NAME=value`` in the environment of all that is started."""
    folder: Folder
    say: Console
    signals: Signals
    head: str = ""
    """Host of the first node; empty on it, and where nodes meet in a folder."""
    children: set[int] = field(default_factory=set)
    """Process ids that are waited for elsewhere."""
    ray: RayNode | None = None
    stop: Stop = field(default_factory=Stop)
    """Ends what the preflight has started."""

    @property
    def times(self) -> Times:
        """How long others are waited for."""
        return Times(lost=self.order.lost_seconds or Times().lost)

    @property
    def host(self) -> str:
        """This machine's name, for people."""
        return socket.gethostname()

    @property
    def ray_env(self) -> dict[str, str]:
        """The environment of Ray and of the command."""
        token_file = self.folder.short / "token"
        return ray_environment(self.env, token_file=token_file, mark=self.mark, folder=self.folder.short)

    async def check(self) -> NodeReport:
        """The preflight of this node, in a thread: signals and other nodes are heard meanwhile."""
        order = self.order
        demand = Demand(
            image=order.image,
            gpus=order.gpus,
            cpus=order.cpus,
            memory_gib=order.memory_gib,
            shm_gib=order.shm_gib,
            scratch_gib=order.scratch_gib,
            nofile=order.nofile,
            rdma=order.rdma,
            burn_in=order.burn_in,
            head=self.head,
            shared=order.shared,
            ports=order.ports if self.rank == 0 and order.nodes > 1 else (),
        )
        prefix, loaded = Path(sys.prefix), bool(order.gpus)
        identity = functools.partial(take, prefix, loaded=loaded)
        work = functools.partial(
            check_node,
            demand,
            rank=self.rank,
            host=self.host,
            env={**self.env, "RAY_TMPDIR": str(self.folder.short.parent)},
            several=order.nodes > 1,
            fingerprint=identity,
        )
        return await self._beside(work)

    async def across(self, where: Across) -> Check:
        """The sum over all GPUs of all nodes, as this node sees it; takes a few minutes at most."""
        work = functools.partial(
            check_across,
            Demand(gpus=self.order.gpus),
            node=where.node,
            nodes=where.nodes,
            address=where.address,
            port=where.port,
        )
        return await self._beside(work)

    async def _beside[T](self, work: Callable[[], T]) -> T:
        """In a thread that is not waited for when this program ends: a dead file server must not hold it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: Exception | None) -> None:
            if not future.done():
                future.set_exception(error) if error else future.set_result(cast("T", result))

        def do() -> None:
            result, problem = None, None
            try:
                with self.stop.covers():
                    result = work()
            except KeyboardInterrupt:
                problem = Over(Outcome(ExitCode.REFUSED, "the checks were interrupted", failed=False))
            except Exception as error:  # noqa: BLE001 - raised where the report is awaited
                problem = error  # type: ignore[assignment]
            with contextlib.suppress(RuntimeError):  # the loop has ended, nobody waits
                loop.call_soon_threadsafe(settle, result, problem)

        threading.Thread(target=do, name="preflight", daemon=True).start()
        return await future

    @contextlib.contextmanager
    def loading_ray(self) -> Iterator[RayNode]:
        """Ray's starter, loading what it needs while others are still awaited; nothing of Ray runs before its order."""
        with ray_node(self.ray_env, self.folder.short) as node:
            self.ray = node
            self.children.add(node.pid)
            try:
                yield node
            finally:
                self.ray = None

    def spec(self, *, ip: str, address: str = "") -> NodeSpec:
        """This node of the cluster. Raises :class:`RefusedError` for what it lacks."""
        share = find_share(self.env, cpus=self.order.cpus, gpus=self.order.gpus)
        return NodeSpec(
            head=not address,
            address=address,
            ip=ip,
            name=node_name(self.rank),
            folder=str(self.folder.short),
            cpus=share.cpus,
            gpus=share.gpus,
            memory_bytes=share.memory_bytes,
            store_bytes=share.store_bytes,
            resources={node_name(self.rank): 1.0},
            labels={"orbit-rank": str(self.rank), "orbit-job": self.order.name},
            dashboard=self.order.dashboard and not address,
        )

    def write_token(self, token: str) -> None:
        """Ray's token, before anything of Ray starts."""
        write_token(self.folder.short, token)

    async def watch(self, tell: Callable[[Failing], object]) -> None:
        """Say when Ray ends here or the disk is full, once; runs until it is cancelled."""
        next_look = 0.0
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                if self.ray:
                    self.ray.check()
            except RayFailed as error:
                tell(failing(error))
                return
            if time.monotonic() < next_look:
                continue
            next_look = time.monotonic() + FULL_LOOK_S
            reap(frozenset(self.children | {GUARD.pid}))
            with contextlib.suppress(OSError):
                free = free_bytes(self.folder.real)
                if free < FULL_BYTES:
                    what = f"the disk is full: {format_bytes(free)} are free in {self.folder.real.parent}"
                    tell(Failing(what, ExitCode.REFUSED))
                    return


def free_port(address: str) -> int:
    """A port of ``address`` that nobody listens on. It is not kept: whoever is given it may lose it to another."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def node_name(rank: int) -> str:
    """Of a node in Ray: its name there, and the resource that only it has."""
    return f"orbit-node-{rank}"


def failing(error: OrbitError) -> Failing:
    """An expected error of this node, to be told."""
    status = ExitCode.MISSING if isinstance(error, RayFailed) else error.code
    fix = f" (fix: {error.fix})" if error.fix and not isinstance(error, RayFailed) else ""
    return Failing(f"{error.what}{fix}", status, error.tail if isinstance(error, RayFailed) else "")


async def ended(child: Child) -> int:
    """The status of a program when it has ended, as shells say it (128 + the signal that ended it)."""
    while child.poll() is None:
        await asyncio.sleep(0.05)
    status: int = child.returncode
    return 128 - status if status < 0 else status


def own_host_names() -> list[str]:
    """Names and addresses of this machine that never go through a proxy."""
    return ["localhost", "127.0.0.1", "::1", os.uname().nodename]
