"""Processors a job really has: of the set it may run on and of the time its quota allows, the less."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orbit.launch.preflight.below import field, text
from orbit.launch.preflight.cgroup import Cgroup, count_list
from orbit.launch.preflight.model import Check, Demand
from orbit.launch.preflight.say import failed, passed, warned

POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_MAX_THREADS")
FIX = (
    "ask for them (docker: --cpus, --cpuset-cpus; Kubernetes: resources.limits.cpu; Slurm: --cpus-per-task; "
    "HTCondor: request_cpus), or lower cpus_per_node"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Processors:
    """Hardware threads."""

    allowed: int
    """That this process may run on."""
    cpuset: int | None = None
    quota: float | None = None

    @property
    def usable(self) -> float:
        """What a job has: a quota of 1.5 is 1.5."""
        return min(float(value) for value in (self.allowed, self.cpuset, self.quota) if value)

    @property
    def whole(self) -> int:
        """Whole processors, at least one: for thread pools."""
        return max(1, int(self.usable))


def read_processors(root: Path, cgroup: Cgroup) -> Processors:
    """``Cpus_allowed_list`` of /proc/self/status below ``root``, and the cgroup."""
    allowed = count_list(field(text(root, "proc/self/status"), "Cpus_allowed_list")) or os.cpu_count() or 1
    return Processors(allowed=allowed, cpuset=cgroup.cpuset, quota=cgroup.cpus)


def judge_processors(here: Processors, demand: Demand, env: Mapping[str, str]) -> Iterator[Check]:
    """``processors`` and ``threads``."""
    found = {"allowed": here.allowed, "cpuset": here.cpuset, "quota": here.quota, "usable": f"{here.usable:g}"}
    limit = "the quota of the cgroup" if here.quota and here.quota == here.usable else "the set this process may run on"
    if here.usable < demand.cpus:
        text = f"{here.usable:g} hardware threads ({limit}), {demand.cpus} are needed"
        yield failed("processors", text, FIX, **found)
    else:
        yield passed("processors", f"{here.usable:g} hardware threads ({limit})", **found)
    wide = [(name, int(env[name])) for name in POOLS if env.get(name, "").isdigit() and int(env[name]) > here.usable]
    if wide:
        name, count = wide[0]
        text = f"{name}={count}, and there are {here.usable:g} hardware threads"
        yield warned("threads", text, f"unset it, or {name}={here.whole}", **dict(wide))
    else:
        yield passed("threads", "thread pools are not wider than the processors")
