"""Main memory, /dev/shm and the object store that fits both."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orbit.launch.preflight.below import field, text
from orbit.launch.preflight.cgroup import Cgroup
from orbit.launch.preflight.model import Check, Demand
from orbit.launch.preflight.mounts import Mounted, mount_of
from orbit.launch.preflight.rules import Limits
from orbit.launch.preflight.say import GIB, MIB, failed, passed, size, warned

SHM = "/dev/shm"  # noqa: S108 - its size is asked
SHM_FIX = (
    "docker, podman: --shm-size={gib}g or --ipc=host; Kubernetes: an emptyDir with medium Memory and sizeLimit {gib}Gi "
    "on /dev/shm; Apptainer: the host's /dev/shm"
)
UNITS = {"": 1, "k": 1 << 10, "m": MIB, "g": GIB, "%": 0}
SIZE = re.compile(r"^size=(\d+)([kmg%]?)$")
SLACK = 0.98
"""Of a demand: firmware and kernel keep some of a machine's memory, and 64 GiB of it are never quite 64 GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What there is, in bytes."""

    total: int
    """Of the machine."""
    available: int
    limit: int | None = None
    """Of the cgroup; it counts /dev/shm as well."""
    shm: int | None = None
    """None: there is no /dev/shm."""
    shm_free: int | None = None

    @property
    def usable(self) -> int:
        """What a job can have at most."""
        return min(self.total, self.limit) if self.limit is not None and self.total else self.limit or self.total


def read_memory(root: Path, cgroup: Cgroup, mounts: tuple[Mounted, ...]) -> Memory:
    """Read /proc/meminfo, the mount table and /dev/shm below ``root``."""
    content = text(root, "proc/meminfo")
    total, available = (_kib(field(content, key)) for key in ("MemTotal", "MemAvailable"))
    shm = free = None
    try:
        there = os.statvfs(root / SHM[1:])
        shm, free = there.f_blocks * there.f_frsize, there.f_bavail * there.f_frsize
    except OSError:
        pass
    mount = mount_of(SHM, mounts)
    told = _option(mount.options if mount is not None and mount.point == SHM else ())
    if told and shm is not None and free is not None:
        shm, free = told, min(free, told)
    return Memory(total=total, available=available, limit=cgroup.memory_bytes, shm=shm, shm_free=free)


def judge_memory(memory: Memory, demand: Demand, limits: Limits) -> Iterator[Check]:
    """``shared-memory``, ``memory`` and ``object-store``."""
    yield _shm(memory, demand, limits)
    yield _main(memory, demand)
    yield _store(memory, demand, limits)


def object_store_bytes(memory: Memory, limits: Limits, *, shm_share: float = 0.9) -> int:
    """Size of an object store that fits /dev/shm and leaves memory to the job: Ray's share of memory, at most
    ``shm_share`` of what is free in /dev/shm (NCCL and data loaders live there, too)."""
    room = int((memory.shm_free or 0) * shm_share)
    return min(room, int(memory.usable * limits.object_store_share))


def _shm(memory: Memory, demand: Demand, limits: Limits) -> Check:
    name, wanted = "shared-memory", demand.shm_gib * GIB
    fix = SHM_FIX.format(gib=demand.shm_gib or 16)
    if memory.shm is None:
        return failed(name, f"there is no {SHM}", f"mount a tmpfs there: {fix}")
    found = {"shm_bytes": memory.shm, "free_bytes": memory.shm_free}
    if memory.shm < wanted:
        return failed(name, f"{SHM} holds {size(memory.shm)}, {size(wanted)} are needed", fix, **found)
    if memory.shm < limits.shm_mib * MIB:
        text = f"{SHM} holds {size(memory.shm)}; NCCL and data loaders want {size(limits.shm_mib * MIB)}"
        return warned(name, text, fix, **found)
    if memory.shm_free is not None and memory.shm_free < min(wanted, memory.shm) * 0.5:
        return warned(
            name,
            f"{SHM} holds {size(memory.shm)}, and only {size(memory.shm_free)} of it are free",
            "another job of this node uses it, or a dead one left files: look at ls -la /dev/shm",
            **found,
        )
    return passed(name, f"{SHM} holds {size(memory.shm)}", **found)


def _main(memory: Memory, demand: Demand) -> Check:
    name, wanted = "memory", demand.memory_gib * GIB
    found = {"usable_bytes": memory.usable, "available_bytes": memory.available, "limit_bytes": memory.limit}
    whose = "the cgroup allows" if memory.limit is not None and memory.limit == memory.usable else "the machine has"
    if memory.usable < wanted * SLACK:
        fix = "ask the scheduler for more (docker: --memory; Kubernetes: resources.limits.memory; Slurm: --mem)"
        text = f"{whose} {size(memory.usable)}, {size(wanted)} are needed"
        return failed(name, text, f"{fix}, or lower memory_gib", **found)
    if demand.shm_gib and memory.limit is not None and demand.shm_gib * GIB > memory.limit:
        return failed(
            name,
            f"{SHM} of {demand.shm_gib} GiB counts as memory, and the cgroup allows {size(memory.limit)}",
            "raise the memory limit above the size of shared memory, or lower shm_gib",
            **found,
        )
    if memory.available and memory.available < wanted * 0.5:
        text = f"{size(memory.available)} of memory are free, and {size(wanted)} are meant for this job"
        return warned(name, text, "see what else runs on this node: ps aux --sort -rss", **found)
    return passed(name, f"{whose} {size(memory.usable)}", **found)


def _store(memory: Memory, demand: Demand, limits: Limits) -> Check:
    """An error where the job asks for shared memory at all; a program that starts no Ray needs no store."""
    name, store = "object-store", object_store_bytes(memory, limits)
    if store < limits.object_store_mib * MIB:
        text = (
            f"{size(max(store, 0))} are left for Ray's object store, {limits.object_store_mib} MiB are the least: "
            f"{size(memory.shm_free or 0)} free in {SHM}, {size(memory.usable)} of memory"
        )
        judge = failed if demand.shm_gib else warned
        return judge(name, text, SHM_FIX.format(gib=demand.shm_gib or 16), store_bytes=store)
    return passed(name, f"an object store of {size(store)} fits {SHM} and memory", store_bytes=store)


def _kib(words: str) -> int:
    word = words.split()[:1]
    return int(word[0]) << 10 if word and word[0].isdigit() else 0


def _option(options: tuple[str, ...]) -> int:
    for option in options:
        if (match := SIZE.match(option)) is not None:
            return int(match[1]) * UNITS[match[2]]
    return 0
