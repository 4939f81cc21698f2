"""The node program from its first moment to its last: what is set up before the job's life, and cleared up after it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from pathlib import Path

from orbit.core.console import Console
from orbit.core.guard import GUARD
from orbit.launch.node.first import First
from orbit.launch.node.here import Here, Outcome, Signals
from orbit.launch.node.logs import keep_logs, log_place
from orbit.launch.node.meeting.guest import Guest
from orbit.launch.node.meeting.host import Host
from orbit.launch.node.meeting.proof import load_token
from orbit.launch.node.options import Order, host_of, rank_of
from orbit.launch.node.other import Other, places_of
from orbit.launch.ray.cluster import stale_variables
from orbit.launch.ray.folders import private_folder
from orbit.launch.ray.sweep import MARK, adopt_orphans, end_all


def run_node(order: Order, env: Mapping[str, str]) -> int:
    """Live through one job as one of its nodes, and give the exit status (docs/launch-node.md has them all).

    When this returns, nothing that was started here runs any more and the job's folder is gone; when this process is
    killed, the guard sees to both. Raises :class:`OrbitError` for what is wrong before the job begins.
    """
    rank = rank_of(order, env)
    head = "" if rank == 0 else host_of(order, env)
    token = load_token(env, nodes=order.nodes)
    say = Console(prefix=f"node {rank}: ")
    for name in stale_variables(env):
        say.step(f"{name}={env[name] if name != 'RAY_AUTH_TOKEN' else '...'} is of another Ray cluster: not used")
    mark = f"{MARK}={secrets.token_hex(16)}"
    signals = Signals()
    adopt_orphans()
    GUARD.start()
    with signals.caught(), private_folder(env) as folder, GUARD.sweeps(mark, str(folder.real), str(folder.short)):
        here = Here(
            order=order,
            rank=rank,
            env=env,
            token=token,
            mark=mark,
            folder=folder,
            say=say,
            signals=signals,
            head=head,
        )
        try:
            outcome, attempt = asyncio.run(_live(here))
        finally:
            left = end_all(mark, spared=frozenset({GUARD.pid}))
        if left:
            say.step(f"processes that cannot be ended: {', '.join(map(str, sorted(left)))}")
        if outcome.failed:
            _keep(here, attempt)
    say.step(f"{outcome.reason}; status {outcome.status}")
    return outcome.status


async def _live(here: Here) -> tuple[Outcome, str]:
    """The job's life, and which attempt it was."""
    order = here.order
    if here.rank == 0:
        host = Host(here.token, order.nodes, here.times)
        return await First(here, host).live(), host.attempt
    guest = Guest(here.token, here.rank, places_of(here), here.times)
    return await Other(here, guest).live(), guest.attempt or guest.life


def _keep(here: Here, attempt: str) -> None:
    place = log_place(here.env, here.order.shared, job=here.order.name, attempt=attempt)
    if place is None:
        return
    folder = here.folder.real
    with contextlib.suppress(OSError):
        kept = keep_logs([*_sessions(folder), folder / "starter.log"], place / f"node-{here.rank}")
        if kept:
            here.say.step(f"{kept} log files are kept in {place / f'node-{here.rank}'}")


def _sessions(folder: Path) -> list[Path]:
    return [path for path in folder.glob("session_*") if not path.is_symlink()]


def check_order(order: Order, env: Mapping[str, str]) -> dict[str, str]:
    """What ``--dry-run`` says: what this node would do. Raises what :func:`run_node` would before the job begins."""
    if order.join:
        return {
            "job": order.name,
            "joins": f"the Ray cluster at {order.join}, once {order.nodes} node(s) are in it",
            "command": " ".join(order.command),
        }
    rank = rank_of(order, env)
    head = host_of(order, env) if rank else ""
    return {
        "job": order.name,
        "node": f"{rank} of {order.nodes}",
        "meets": "nobody" if order.nodes == 1 else order.meet + (f" ({head})" if head else ""),
        "ports": ", ".join(map(str, order.ports)),
        "ray": "a cluster of its own" if order.ray else "none",
        "command": " ".join(order.command) if rank == 0 else "on node 0",
    }
