"""Whether one process may take a descriptor of another (pidfd_getfd), as CUDA IPC of memory pools does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from orbit.core.proc import run
from orbit.errors import OrbitError
from orbit.launch.preflight.model import Check
from orbit.launch.preflight.say import passed, skipped, warned
from orbit.smoke.kinds.node import TAKER

LIMIT_S = 5.0
YAMA = "/proc/sys/kernel/yama/ptrace_scope"
FIX = (
    "nothing, adapters and weights go by main memory then; to allow it: CAP_SYS_PTRACE for the container, or "
    "kernel.yama.ptrace_scope=0 on the node; HTCondor's profile always forbids it"
)


@dataclass(frozen=True, slots=True)
class Taken:
    """Error number of the attempt (0: it works), or the reason that nothing was tried."""

    number: int = 0
    problem: str = ""


def try_take() -> Taken:
    """Let one child of a process of ours take the standard input of its sibling."""
    try:
        done = run([sys.executable, "-I", "-S", "-c", TAKER], doing="taking a descriptor", timeout_s=LIMIT_S)
        return Taken(number=int(done.stdout))
    except (OrbitError, ValueError) as error:
        return Taken(problem=getattr(error, "what", str(error)))


def judge_handles(taken: Taken) -> Iterator[Check]:
    """``pidfd-getfd``: never an error, it decides which transport is used."""
    name = "pidfd-getfd"
    if taken.problem:
        yield skipped(name, taken.problem)
    elif taken.number:
        text = f"one process may not take a descriptor of another ({os.strerror(taken.number)}): no CUDA IPC of pools"
        yield warned(name, text, FIX, errno=taken.number)
    else:
        yield passed(name, "one process may take a descriptor of another")
