"""Starts the tests of :mod:`orbit.launch.preflight.stack`, each in processes of their own, and collects what they say.

Plain values and the standard library: this also runs where only torch is installed (tests/gpu/preflight_truth.py).
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from orbit.core.proc import Stop, own_python, run
from orbit.errors import CommandFailed
from orbit.launch.preflight.aside import LateError, aside

CHILD, RING = "orbit.launch.preflight.stack.child", "orbit.launch.preflight.stack.ring"
TASKS = {"cuda": ("memory", "matmul", "peers", "sharing"), "cpu": ("memory", "matmul", "sharing")}
SHARE = 0.1
"""Of the free memory of a GPU that is written and read."""
MOST_BYTES = {"cuda": 8 << 30, "cpu": 64 << 20}
GRACE_S = 10.0
BURN_IN, TORCH, RANKS = "burn-in", "torch", "all-reduce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of one test."""

    task: str
    problem: str = ""
    """Empty: it passed."""
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The ranks of this node in an all-reduce."""

    local: int
    """Ranks of each node."""
    nodes: int = 1
    node: int = 0
    meet: str = ""
    """``tcp://HOST:PORT``; empty: a file of this node."""
    backend: str = "nccl"
    """``gloo``: processors instead of GPUs."""


def run_node(kind: str, devices: int, *, limit_s: float, group_s: float, burn_in_s: float = 0.0) -> tuple[Answer, ...]:
    """Everything that one node can be asked: its devices, and beside that the all-reduce of all of them (of two
    processes with ``kind`` = ``cpu``); then, with ``burn_in_s``, the load."""
    local = devices if kind == "cuda" else 2
    beside = aside(functools.partial(run_child, kind, TASKS[kind], limit_s=limit_s))
    group = Group(local=local, backend="nccl" if kind == "cuda" else "gloo")
    stop = Stop()
    ring = aside(functools.partial(run_group, group, limit_s=group_s, stop=stop)) if local > 1 else None
    try:
        found = list(beside.value(limit_s + GRACE_S))
    except LateError as late:
        found = [Answer(task=TORCH, problem=str(late), seconds=limit_s)]
    except BaseException:
        stop.now()
        raise
    if ring is not None:
        try:
            found.append(ring.value(group_s + GRACE_S))
        except LateError as late:
            found.append(Answer(task=RANKS, problem=str(late), seconds=group_s))
    if burn_in_s:
        loaded = run_child(kind, (BURN_IN,), limit_s=limit_s + burn_in_s, burn_in_s=burn_in_s)
        found += [answer for answer in loaded if answer.task == BURN_IN or answer.problem]
    return tuple(found)


def run_child(kind: str, tasks: Sequence[str], *, limit_s: float, burn_in_s: float = 0.0) -> tuple[Answer, ...]:
    """These tasks, one after another in one process. The one it dies at, and those after it, have a problem."""
    order = {"kind": kind, "tasks": list(tasks), "share": SHARE, "most": MOST_BYTES[kind], "burn_in_s": burn_in_s}
    began = time.monotonic()
    try:
        done = run(
            own_python(CHILD),
            doing="testing the devices",
            env=dict(os.environ),
            stdin=json.dumps(order).encode(),
            timeout_s=limit_s,
            check=False,
        )
        said, ended = done.stdout, _ended(done.returncode, done.stderr)
    except CommandFailed as late:
        said, ended = late.tail.encode(), f"no answer within {limit_s:g} s"
    answers = [Answer(**line) for line in _lines(said)]
    told = {answer.task: answer for answer in answers}
    if TORCH not in told or told[TORCH].problem:
        return tuple(answers) or (Answer(task=TORCH, problem=ended, seconds=time.monotonic() - began),)
    lost = [task for task in tasks if task not in told]
    reasons = [ended, *(f"not reached, for {lost[0]} did not end" for _ in lost[1:])] if lost else []
    return (*answers, *(Answer(task=task, problem=reason) for task, reason in zip(lost, reasons, strict=True)))


def run_group(group: Group, *, limit_s: float, stop: Stop | None = None) -> Answer:
    """All ranks of this node; each node runs its own, and they meet at ``group.meet``. ``stop`` ends them."""
    began = time.monotonic()
    stop = stop or Stop()
    with tempfile.TemporaryDirectory(prefix="ring-") as folder:
        meet = group.meet or f"file://{folder}/meet"
        ranks = [
            aside(functools.partial(_rank, group, number, meet, stop, limit_s), f"rank {number}")
            for number in range(group.local)
        ]
        answers = [_value(rank, limit_s + GRACE_S) for rank in ranks]
    bad = [
        f"rank {group.node * group.local + number}: {a['problem']}" for number, a in enumerate(answers) if a["problem"]
    ]
    spent = round(time.monotonic() - began, 3)
    # the first to fail says why; those that waited for it only say that they waited
    bad.sort(key=lambda text: "another one had died" in text or "connection" in text.lower())
    return Answer(task=RANKS, problem="; ".join(bad[:2]), facts=answers[0]["facts"], seconds=spent)


def _rank(group: Group, number: int, meet: str, stop: Stop, limit_s: float) -> dict[str, Any]:
    """One rank. When it dies the others of this node are ended: they would wait for it in vain."""
    order = {
        "rank": group.node * group.local + number,
        "world": group.nodes * group.local,
        "backend": group.backend,
        "meet": meet,
        "device": number,
        "limit_s": limit_s,
    }
    try:
        with stop.covers():
            done = run(
                own_python(RING),
                doing=f"rank {order['rank']}",
                env=dict(os.environ),
                stdin=json.dumps(order).encode(),
                timeout_s=limit_s,
                check=False,
            )
    except CommandFailed:
        stop.now()
        return {"problem": f"no end within {limit_s:g} s", "facts": {}}
    except KeyboardInterrupt:
        return {"problem": "was ended, for another one had died", "facts": {}}
    lines = _lines(done.stdout)
    if not lines or lines[-1]["problem"]:
        stop.now()
    return lines[-1] if lines else {"problem": _ended(done.returncode, done.stderr), "facts": {}}


def _value(rank: Any, limit_s: float) -> dict[str, Any]:
    try:
        found: dict[str, Any] = rank.value(limit_s)
    except LateError as late:
        return {"problem": str(late), "facts": {}}
    return found


def _lines(said: bytes) -> list[dict[str, Any]]:
    """The lines of JSON objects in what a program wrote; libraries write others between them."""
    found = []
    for line in said.splitlines():
        if line.startswith(b"{"):
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


def _ended(status: int, errors: bytes) -> str:
    tail = " ".join(errors.decode(errors="replace").strip().splitlines()[-1:])
    how = f"signal {-status}" if status < 0 else f"status {status}"
    return f"the process ended with {how}: {tail}" if tail else f"the process ended with {how}"
