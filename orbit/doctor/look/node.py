"""Checks of the preflight: those that take a moment, or all of them.

The quick ones are the same functions that judge a node of a job; what asks the driver, the network or torch is left
out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from orbit.core.findings import Skipped
from orbit.launch.preflight.cgroup import read_cgroup
from orbit.launch.preflight.identity import judge_identity, read_identity
from orbit.launch.preflight.limits import judge_bounds, read_bounds
from orbit.launch.preflight.memory import judge_memory, read_memory
from orbit.launch.preflight.model import Check, Demand
from orbit.launch.preflight.mounts import Mounted
from orbit.launch.preflight.processors import judge_processors, read_processors
from orbit.launch.preflight.proxy import judge_proxy
from orbit.launch.preflight.rdma import judge_rdma, read_rdma
from orbit.launch.preflight.rules import load_rules
from orbit.launch.preflight.storage import find_places, judge_storage, try_folders

QUICK_S = 1.5
"""For a file system to answer."""
LEFT_OUT = (
    "driver, fabric, gpus, gpu-health, gpu-coverage, visible-devices, interface, ports, clock and what needs torch"
)


def quick_checks(root: Path, env: Mapping[str, str], mounts: tuple[Mounted, ...]) -> Iterator[Check]:
    """Limits, user, memory, processors, proxy, RDMA and the folders of a job, for a job that demands nothing."""
    rules, demand, uid = load_rules(), Demand(), os.getuid()
    cgroup, adapters = read_cgroup(root), read_rdma(root)
    yield from judge_bounds(read_bounds(root, cgroup), demand, rules.limits, env, rdma=bool(adapters))
    yield from judge_identity(read_identity(root, env, uid), demand, env)
    yield from judge_memory(read_memory(root, cgroup, mounts), demand, rules.limits)
    yield from judge_processors(read_processors(root, cgroup), demand, env)
    yield from judge_proxy(env, ())
    yield from judge_rdma(adapters, demand)
    places = find_places(demand, env, uid)
    yield from judge_storage(places, try_folders(places.all, mounts, QUICK_S), mounts, demand, rules)


def left_out() -> Skipped:
    """What the quick checks are not."""
    return Skipped(what="preflight", reason=f"--deep also asks {LEFT_OUT}", estimate="up to 10 s and more")
