"""What one node of a job is told: the flags of ``orbit launch node`` as a value, and that value as flags.

Renderers make an :class:`Order` and write :func:`words`; the node program reads it with :func:`parse`.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NoReturn

from orbit.core.records import Record
from orbit.errors import InputError
from orbit.launch.node.flags import add_flags
from orbit.launch.site.model import Wanted

FROM_ENVIRONMENT = re.compile(r"^env:([A-Za-z_][A-Za-z0-9_]*)$")
HOST = re.compile(r"^[A-Za-z0-9:_]([-A-Za-z0-9.:_%]*)$")
PAGE = "docs/launch-node.md lists the flags"


class Order(Record, frozen=True, kw_only=True):
    """What a node is told. A flag has the name of its field; 0 and "" demand nothing."""

    name: str = "job"
    nodes: int = 1
    rank: str = "0"
    """A number, or ``env:NAME`` for the variable that has it (``SLURM_PROCID``, ``JOB_COMPLETION_INDEX``)."""
    gpus: int = 0
    cpus: int = 0
    memory_gib: int = 0
    shm_gib: int = 0
    scratch_gib: int = 0
    nofile: int = 65536
    """Open files a process must be allowed: fewer, and a raylet of a large job hangs."""
    image: str = ""
    """``sha256:...``."""
    meet: str = ""
    """``tcp:HOST`` (``tcp:env:NAME``: the variable that has it) or ``dir:FOLDER``; empty for a job of one node."""
    ports: tuple[int, ...] = ()
    """Where the first node listens: the first that is free. Not needed with ``dir:`` (any free one)."""
    shared: str = ""
    """Folder all nodes see; logs of a failure are put there. Empty: into the state folder."""
    late_minutes: float = 15
    grace_seconds: float = 60
    lost_seconds: float = 30
    """Silence after which a node counts as lost, on both sides."""
    unfit: Literal["stop", "leave-out"] = "stop"
    least: int = 0
    rdma: Wanted = "none"
    burn_in: bool = False
    ray: bool = True
    """False is ``--no-ray``."""
    join: str = ""
    """Address of a Ray cluster that somebody else brings up; it is checked and used, not started."""
    dashboard: bool = False
    command: tuple[str, ...] = ()


def parse(argv: Sequence[str]) -> Order:
    """The order in ``argv`` (without ``orbit launch node``). Raises :class:`InputError` for what is not one."""
    parser = _Parser(prog="orbit launch node", add_help=False)
    add_flags(parser)
    return from_args(parser.parse_args(list(argv)))


def from_args(args: argparse.Namespace) -> Order:
    """The order in what :func:`add_flags` collected. Raises :class:`InputError` for one that contradicts itself."""
    values = {name: getattr(args, name) for name in Order.__struct_fields__}
    order = Order(**(values | {"ports": _ports(args.ports), "command": tuple(args.command)}))
    problem = next(problems(order), None)
    if problem:
        raise InputError(f"orbit launch node: {problem[0]}", fix=problem[1])
    return order


def words(order: Order) -> tuple[str, ...]:
    """``order`` as the arguments of ``orbit launch node``: what differs from the defaults, always in one order.

    The inverse of :func:`parse`, for every order that :func:`problems` finds nothing in.
    """
    usual = Order()
    said: list[str] = []
    for name in Order.__struct_fields__:
        value = getattr(order, name)
        if name == "command" or value == getattr(usual, name):
            continue
        flag = "--no-ray" if name == "ray" else "--" + name.replace("_", "-")
        said += [flag] if isinstance(value, bool) else [flag, _word(value)]
    return (*said, "--", *order.command)


def problems(order: Order) -> Iterator[tuple[str, str]]:
    """What is wrong with ``order``: what, and what to do."""
    amounts = (
        "gpus",
        "cpus",
        "memory_gib",
        "shm_gib",
        "scratch_gib",
        "least",
        "late_minutes",
        "grace_seconds",
        "lost_seconds",
    )
    for name in amounts:
        value = getattr(order, name)
        if not (math.isfinite(value) and value >= 0):
            yield f"--{name.replace('_', '-')} {value:g}", "a number that is not negative is needed"
    texts = [order.name, order.image, order.meet, order.shared, order.join, *order.command]
    if any("\0" in text for text in texts):
        yield "a word holds a NUL", "no program can be given one"
    if any(text.startswith("-") for text in texts[:5]):
        yield "the value of a flag begins with '-'", "name it another way (a folder: ./-x)"
    if not order.command:
        yield "no command", "write it behind --: orbit launch node --nodes 1 -- python3.12 train.py"
    if order.nodes < 1:
        yield f"--nodes {order.nodes}", "at least one is needed"
    yield from _who(order)
    yield from _where(order)


def rank_of(order: Order, env: Mapping[str, str]) -> int:
    """Which node this is, 0 to ``nodes`` - 1. Raises :class:`InputError` where the variable says nothing of use."""
    text = _resolve(order.rank, env, "--rank")
    if not text.isascii() or not text.isdigit() or int(text) >= order.nodes:
        raise InputError(
            f"orbit launch node: --rank {order.rank} is {text!r}, and the job has {order.nodes} node(s)",
            fix=f"a number from 0 to {order.nodes - 1} is needed",
        )
    return int(text)


def host_of(order: Order, env: Mapping[str, str]) -> str:
    """The first node's name or address; empty where nodes meet in a folder. Raises :class:`InputError`."""
    if not order.meet.startswith("tcp:"):
        return ""
    text = _resolve(order.meet.removeprefix("tcp:"), env, "--meet")
    if not HOST.match(text):
        raise InputError(f"orbit launch node: --meet {order.meet}: {text!r} is no host name and no address", fix=PAGE)
    return text


def folder_of(order: Order) -> str:
    """The folder nodes meet in; empty where they meet by TCP."""
    return order.meet.removeprefix("dir:") if order.meet.startswith("dir:") else ""


def _who(order: Order) -> Iterator[tuple[str, str]]:
    if not FROM_ENVIRONMENT.match(order.rank) and not (order.rank.isascii() and order.rank.isdigit()):
        yield f"--rank {order.rank!r}", "a number, or env:NAME for the variable that has it"
    elif order.rank.isdigit() and int(order.rank) >= max(order.nodes, 1):
        yield f"--rank {order.rank} with --nodes {order.nodes}", f"a number from 0 to {order.nodes - 1} is needed"
    if order.least > order.nodes:
        yield f"--least {order.least} with --nodes {order.nodes}", "at most as many as there are"
    if order.least and order.unfit != "leave-out":
        yield f"--least {order.least} without --unfit leave-out", "add it, or remove --least"
    if not order.ray and order.nodes > 1:
        yield f"--no-ray with --nodes {order.nodes}", "Ray is what joins nodes: remove --no-ray"
    if order.join and not order.ray:
        yield "--join with --no-ray", "remove one of them"


def _where(order: Order) -> Iterator[tuple[str, str]]:
    for port in order.ports:
        if not 1024 <= port <= 65535:
            yield f"--ports {port}", "from 1024 to 65535"
    if len(set(order.ports)) != len(order.ports):
        yield "--ports names one port twice", "each once"
    host = order.meet.removeprefix("tcp:")
    if not order.meet:
        if order.nodes > 1 and not order.join:
            yield f"--nodes {order.nodes} without --meet", "tcp:HOST of the first node, or dir:FOLDER that all see"
    elif order.meet.startswith("dir:"):
        if not order.meet.startswith("dir:/"):
            yield f"--meet {order.meet!r}", "dir: needs an absolute path"
    elif not order.meet.startswith("tcp:") or not (FROM_ENVIRONMENT.match(host) or HOST.match(host)):
        yield f"--meet {order.meet!r}", "tcp:HOST, tcp:env:NAME or dir:FOLDER"
    elif not order.ports:
        yield f"--meet {order.meet} without --ports", "name the ports where the first node may listen"


def _resolve(text: str, env: Mapping[str, str], flag: str) -> str:
    found = FROM_ENVIRONMENT.match(text)
    if not found:
        return text
    if not env.get(found[1]):
        raise InputError(
            f"orbit launch node: {flag} {text}, and {found[1]} is not set here",
            fix="the scheduler sets it for each node; outside of a job give the value itself",
        )
    return env[found[1]]


def _ports(text: str) -> tuple[int, ...]:
    pieces = text.split(",") if text else []
    if not all(piece.isascii() and piece.isdigit() for piece in pieces):
        raise InputError(f"orbit launch node: --ports {text!r}", fix="numbers with commas between them: 21000,21007")
    return tuple(map(int, pieces))


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"orbit launch node: {message}", fix=PAGE)
