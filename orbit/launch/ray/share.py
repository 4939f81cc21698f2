"""What of the machine this job may use: processors and memory by cgroup, /dev/shm, GPUs as the scheduler gave them."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orbit.core.amounts import format_bytes
from orbit.errors import RefusedError
from orbit.launch.preflight.cgroup import read_cgroup
from orbit.launch.preflight.visible import NOTHING, VARIABLE

SHM = Path("/dev/shm")  # noqa: S108 - asked for its size alone
ROOT = Path("/")
LEAST_STORE = 80 << 20
"""Ray's own least is 75 MiB."""
MOST_STORE = 200 << 30
STORE_OF_SHM = 0.5
"""NCCL and the loaders of data need /dev/shm, too."""
STORE_OF_MEMORY = 0.3
"""Ray's own share; pages of /dev/shm count as memory of the container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One node's share."""

    cpus: int
    memory_bytes: int
    store_bytes: int
    gpus: int


def find_share(env: Mapping[str, str], *, cpus: int, gpus: int) -> Share:
    """What Ray is told. ``cpus`` 0: all there are; never more than the cgroup lets run.

    Raises :class:`RefusedError` where there are fewer GPUs than ``gpus``, or /dev/shm holds no object store.
    """
    there = cpu_limit()
    memory = memory_limit()
    shm = shutil.disk_usage(SHM).free
    return Share(
        cpus=min(cpus, there) if cpus else there,
        memory_bytes=memory,
        store_bytes=store_size(shm, memory),
        gpus=gpu_count(env, gpus),
    )


def store_size(shm_free: int, memory: int) -> int:
    """Bytes of the object store. Raises :class:`RefusedError` where none fits."""
    size = int(min(shm_free * STORE_OF_SHM, memory * STORE_OF_MEMORY, MOST_STORE))
    if size < LEAST_STORE:
        raise RefusedError(
            f"{format_bytes(shm_free)} are free in /dev/shm and {format_bytes(memory)} is the limit of memory: too "
            f"little for Ray's object store of at least {format_bytes(LEAST_STORE)}",
            fix="docker: --shm-size=16g or --ipc=host; Kubernetes: an emptyDir of medium Memory on /dev/shm",
        )
    return size


def visible_gpus(env: Mapping[str, str]) -> tuple[str, ...] | None:
    """The ids in CUDA_VISIBLE_DEVICES as the scheduler set it (numbers, ``GPU-...``, ``MIG-...``); None: not set."""
    text = env.get(VARIABLE)
    if text is None:
        return None
    if text.split(",")[0].strip() in ("", *NOTHING):
        return ()
    return tuple(piece.strip() for piece in text.split(",") if piece.strip())


def gpu_count(env: Mapping[str, str], wanted: int) -> int:
    """GPUs that Ray is given: logical 0 to n-1, which it maps to the ids of the variable; others are not touched."""
    ids = visible_gpus(env)
    if ids is not None and len(set(ids)) < wanted:
        raise RefusedError(
            f"{VARIABLE}={env[VARIABLE]!r} has {len(set(ids))} GPU(s), and {wanted} are wanted",
            fix="the scheduler sets it: ask it for as many GPUs as the recipe has in gpus_per_node",
        )
    return wanted


def cpu_limit(root: Path = ROOT) -> int:
    """Processors that may run at once: the affinity, the set and the quota of the cgroup.

    A quota of 150 % lets two run for a part of the time and counts as two.
    """
    limits = read_cgroup(root)
    counts = [len(os.sched_getaffinity(0))]
    counts += [limits.cpuset] if limits.cpuset else []
    counts += [math.ceil(limits.cpus)] if limits.cpus else []
    return max(1, min(counts))


def memory_limit(root: Path = ROOT) -> int:
    """Bytes of memory: the machine's, or the limit of the cgroup."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = read_cgroup(root).memory_bytes
    return min(size, limit) if limit else size
