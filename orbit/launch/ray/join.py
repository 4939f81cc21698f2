"""A Ray cluster that somebody else starts (KubeRay): wait until all of it is there, then become the command.

Nothing is started or taken down here: that is the operator's. What remains the same as under every other scheduler: the
command does not begin with fewer nodes than were asked for, and what is missing is said.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NoReturn

import msgspec

from orbit.core.console import Console
from orbit.core.proc import own_python, run
from orbit.core.records import Record, compact_json
from orbit.errors import CommandFailed, MissingError
from orbit.launch.node.options import Order
from orbit.launch.ray.spec import Seen

WAITER = "orbit.launch.ray.stack.wait"
MARGIN_S = 120.0
"""For importing Ray and a last question."""


class Wanted(Record, frozen=True, kw_only=True):
    """What has to be there: so many nodes, each with at least this."""

    address: str
    nodes: int
    gpus: int
    cpus: int
    seconds: float


class Found(Record, frozen=True, kw_only=True):
    """What is there at the end of the wait."""

    nodes: tuple[Seen, ...] = ()
    error: str = ""
    """Why the cluster could not be asked, the last time."""


def run_joined(order: Order, env: Mapping[str, str]) -> NoReturn:
    """Wait for the nodes of ``order`` at ``order.join``, then be its command, with its status and its signals.

    Raises :class:`MissingError` with who is missing after ``late_minutes``.
    """
    say = Console(prefix="join: ")
    say.step(f"waiting for {order.nodes} node(s) of the Ray cluster at {order.join}")
    found = ask(order, env)
    fit = [node for node in found.nodes if is_fit(node, order)]
    if len(fit) < order.nodes:
        raise MissingError(
            f"{order.name}: {len(fit)} of {order.nodes} nodes are in the Ray cluster at {order.join} after "
            f"{order.late_minutes:g} min: {described(found, order)}",
            fix="kubectl get pods says which are missing; the log of a pod's container preflight says what it lacks",
        )
    say.step(f"{len(fit)} node(s): {', '.join(node.name for node in fit)}")
    total = {kind: int(sum(node.resources.get(kind, 0) for node in fit)) for kind in ("CPU", "GPU")}
    added = {
        "RAY_ADDRESS": order.join,
        "ORBIT_NODES": str(len(fit)),
        "ORBIT_CPUS": str(total["CPU"]),
        "ORBIT_GPUS": str(total["GPU"]),
    }
    become(order.command, {**env, **added})


def ask(order: Order, env: Mapping[str, str]) -> Found:
    """The nodes, once they are all there or time is over; asked by a program that imports Ray."""
    seconds = order.late_minutes * 60
    wanted = Wanted(address=order.join, nodes=order.nodes, gpus=order.gpus, cpus=order.cpus, seconds=seconds)
    try:
        done = run(
            own_python(WAITER),
            doing="waiting for the Ray cluster",
            env=env,
            stdin=compact_json(wanted),
            timeout_s=seconds + MARGIN_S,
        )
    except CommandFailed as error:
        raise MissingError(f"{error.what}: {error.tail.strip()[-500:]}", fix="is the head of the cluster up?") from None
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Found)


def is_fit(node: Seen, wanted: Order | Wanted) -> bool:
    """Whether a node is there and has what each must have."""
    resources = node.resources
    return node.alive and resources.get("GPU", 0) >= wanted.gpus and resources.get("CPU", 0) >= wanted.cpus


def described(found: Found, wanted: Order | Wanted) -> str:
    """The nodes one by one: which are fit, which are dead or too small."""
    if not found.nodes:
        return found.error or "nobody is there"
    said = []
    for node in found.nodes:
        has = f"{node.resources.get('GPU', 0):g} GPU, {node.resources.get('CPU', 0):g} CPU"
        state = "there" if is_fit(node, wanted) else f"has {has}" if node.alive else f"dead ({node.why})"
        said.append(f"{node.name} {state}")
    return "; ".join(said)


def become(command: tuple[str, ...], env: Mapping[str, str]) -> NoReturn:
    """Be ``command``: its status is the job's, and every signal reaches it. Raises :class:`MissingError`."""
    try:
        os.execvpe(command[0], command, env)  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise MissingError(f"{command[0]}: {error.strerror}", fix="correct launch.command") from None
