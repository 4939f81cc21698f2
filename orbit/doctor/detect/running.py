"""What runs, what was left behind, and what is held."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from orbit.doctor.detect.seen import Seen, likely, possible
from orbit.doctor.facts import Facts, Process

RAY_PORTS = {6379: "GCS", 8265: "dashboard"}
"""What ``ray start --head`` takes when nothing is said (Ray 2.55)."""
WORKERS = re.compile(r"^(?:ray::|sglang::(?:sched|deto|data))")
"""Names that workers of Ray and SGLang give themselves."""
RAY = re.compile(r"^(?:ray::|raylet|gcs_server|plasma_store)")
BUILDERS = frozenset({"ninja", "nvcc", "cicc", "ptxas", "cc1plus", "cudafe++"})
STUCK_S = 0.9
"""So long in a row a disk that works lets nobody wait."""
LOCK_S = 600
SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
MOST_NAMED = 4


def stuck_processes(facts: Facts) -> Iterator[Seen]:
    """Processes that wait for a device or a file server, where no signal reaches them."""
    stuck = [process for process in facts.processes if process.waits_s >= STUCK_S]
    if stuck:
        yield likely(f"in uninterruptible sleep, and not run once while watched: {_named(stuck)}")


def left_over_processes(facts: Facts) -> Iterator[Seen]:
    """Workers whose parent is gone, and the dead that nobody buries."""
    orphans = [one for one in facts.processes if one.parent == 1 and one.state != "Z" and WORKERS.match(one.name)]
    if orphans:
        yield likely(f"workers without a parent: {_named(orphans)}")
    dead = [one for one in facts.processes if one.state == "Z" and RAY.match(one.name)]
    if dead:
        yield likely(f"dead and not buried by their parent: {_named(dead)}")


def ray_ports_taken(facts: Facts) -> Iterator[Seen]:
    """Somebody listens where Ray does by default."""
    for port, what in RAY_PORTS.items():
        if port in facts.listening:
            yield possible(f"port {port} of this machine is taken (Ray's {what}, by default)")


def ray_address_stale(facts: Facts) -> Iterator[Seen]:
    """An address that Ray would use, where nothing answers."""
    for ray in facts.ray:
        if ray.answer == "refused":
            yield Seen(f"{ray.source} names {ray.address}, and nothing listens there")
        elif ray.answer != "open":
            yield likely(f"{ray.source} names {ray.address}: {ray.answer}")


def stale_locks(facts: Facts) -> Iterator[Seen]:
    """Files that are locks by being there, with nobody who builds."""
    if any(process.name in BUILDERS for process in facts.processes):
        return
    for lock in facts.locks:
        if lock.age_s > LOCK_S:
            yield likely(f"{lock.path} is {lock.age_s // 60} min old, and no compiler of yours runs")


def killed_for_memory(facts: Facts) -> Iterator[Seen]:
    """The control group's own count."""
    if facts.oom_kills:
        yield likely(f"the kernel killed {facts.oom_kills} processes of this control group for memory")


def first_process_is_a_shell(facts: Facts) -> Iterator[Seen]:
    """A shell with a command is process 1: it passes no signal on."""
    words = facts.first_process
    if len(words) > 1 and PurePath(words[0]).name in SHELLS:
        yield possible(f"process 1 is {' '.join(words)[:80]}")


def docker_does_not_answer(facts: Facts) -> Iterator[Seen]:
    """The client's own words."""
    if facts.docker:
        yield possible(facts.docker)


def _named(processes: list[Process]) -> str:
    shown = ", ".join(f"{one.pid} {one.name} ({one.age_s // 60} min)" for one in processes[:MOST_NAMED])
    return shown + (f" and {len(processes) - MOST_NAMED} more" if len(processes) > MOST_NAMED else "")
