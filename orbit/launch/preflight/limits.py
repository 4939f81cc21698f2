"""Limits of this process: open files (raised here), locked memory, processes, addresses, time."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orbit.launch.preflight.below import field, text
from orbit.launch.preflight.cgroup import Cgroup
from orbit.launch.preflight.model import Check, Demand
from orbit.launch.preflight.rules import Limits
from orbit.launch.preflight.say import GIB, MIB, failed, passed, size, warned

IPC_LOCK = 14
"""CAP_IPC_LOCK of linux/capability.h: locked memory is not counted."""
SECONDS_LEFT = 600
ROWS = {"Max open files": "nofile", "Max locked memory": "memlock", "Max processes": "nproc",
        "Max address space": "address", "Max file size": "file", "Max cpu time": "time"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of /proc/self/limits, None: unlimited; what the cgroup says of processes; effective capabilities."""

    nofile: tuple[int | None, int | None] = (None, None)
    """Soft and hard."""
    memlock: int | None = None
    nproc: int | None = None
    address: int | None = None
    file: int | None = None
    time: int | None = None
    pids: int | None = None
    pids_used: int = 0
    ipc_lock: bool = False
    uid: int = 0

    @property
    def locked_bytes(self) -> int:
        """Memory that can be locked; -1: no limit."""
        return -1 if self.ipc_lock or self.memlock is None else self.memlock


def read_bounds(root: Path, cgroup: Cgroup) -> Bounds:
    """Read /proc/self/limits and /proc/self/status below ``root``."""
    rows: dict[str, tuple[int | None, int | None]] = {}
    for line in text(root, "proc/self/limits").splitlines():
        for title, key in ROWS.items():
            words = line.removeprefix(title).split()
            if line.startswith(title) and len(words) >= 2:
                rows[key] = _amount(words[0]), _amount(words[1])
    status = text(root, "proc/self/status")
    capabilities = int(field(status, "CapEff") or "0", 16)
    return Bounds(
        nofile=rows.get("nofile", (None, None)),
        **{key: rows[key][0] for key in ("nproc", "address", "file", "time") if key in rows},
        memlock=rows.get("memlock", (None, None))[1],
        pids=cgroup.pids,
        pids_used=cgroup.pids_used or 0,
        ipc_lock=bool(capabilities >> IPC_LOCK & 1),
        uid=int((field(status, "Uid").split() or ["0"])[0]),
    )


def raise_open_files() -> tuple[int, int]:
    """Lift the soft limit of open files to the hard one, for this process and all it starts; both, as they are then."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def judge_bounds(
    bounds: Bounds, demand: Demand, limits: Limits, env: Mapping[str, str], *, rdma: bool, now: float | None = None
) -> Iterator[Check]:
    """``open-files``, ``locked-memory`` (with ``rdma``: RDMA devices are usable here), ``processes``,
    ``resource-limits`` and ``time-limit``."""
    yield _files(bounds, demand)
    yield _locked(bounds, demand, limits, rdma=rdma)
    yield _processes(bounds, limits)
    yield _rest(bounds, limits)
    yield _time(bounds, env, time.time() if now is None else now)


def _files(bounds: Bounds, demand: Demand) -> Check:
    soft, hard = bounds.nofile
    found = {"soft": _told(soft), "hard": _told(hard)}
    fix = (
        f"docker, podman: --ulimit nofile={demand.nofile}:1048576; Kubernetes: LimitNOFILE of the container runtime; "
        "Slurm: PropagateResourceLimitsExcept=NOFILE and LimitNOFILE of slurmd"
    )
    if hard is not None and hard < demand.nofile:
        text = f"at most {hard} open files (hard limit), {demand.nofile} are needed: raylets abort or hang"
        return failed("open-files", text, fix, **found)
    if soft is not None and soft < demand.nofile:
        text = f"at most {soft} open files (soft limit, could not be raised), {demand.nofile} are needed"
        return failed("open-files", text, f"ulimit -n {demand.nofile} before the job", **found)
    return passed("open-files", f"{_told(soft)} open files", **found)


def _locked(bounds: Bounds, demand: Demand, limits: Limits, *, rdma: bool) -> Check:
    name, limit, least = "locked-memory", bounds.locked_bytes, limits.memlock_mib * MIB
    if limit < 0 or limit >= least:
        return passed(name, "no limit of locked memory" if limit < 0 else f"{size(limit)} may be locked", bytes=limit)
    message = f"{size(limit)} of memory may be locked, RDMA registers far more ({size(least)} at least)"
    if not rdma or demand.rdma == "none":
        why = "no RDMA device is usable here" if not rdma else "RDMA is not asked for"
        return passed(name, f"{size(limit)} may be locked; enough, for {why}", bytes=limit)
    inert = "" if bounds.uid == 0 else " (the capability IPC_LOCK has no effect for a user other than root)"
    fix = (
        "docker, podman: --ulimit memlock=-1; Kubernetes: LimitMEMLOCK=infinity of the container runtime, no field "
        f"of a pod sets it{inert}; Slurm: PropagateResourceLimitsExcept=MEMLOCK and LimitMEMLOCK=infinity of slurmd"
    )
    return failed(name, message, fix, bytes=limit)


def _processes(bounds: Bounds, limits: Limits) -> Check:
    name = "processes"
    found = {"pids": _told(bounds.pids), "used": bounds.pids_used, "nproc": _told(bounds.nproc)}
    left = None if bounds.pids is None else bounds.pids - bounds.pids_used
    if left is not None and left < limits.pids:
        fix = "docker, podman: --pids-limit=-1; Kubernetes: podPidsLimit of the kubelet; end old processes"
        text = (
            f"{left} more processes and threads (of {bounds.pids}, {bounds.pids_used} used), {limits.pids} are needed"
        )
        return failed(name, text, fix, **found)
    if bounds.nproc is not None and bounds.nproc < limits.pids and bounds.uid != 0:
        text = f"at most {bounds.nproc} processes and threads of this user, {limits.pids} are needed"
        return failed(name, text, "docker: --ulimit nproc=-1; else: ulimit -u, limits.conf", **found)
    return passed(name, f"{'no limit of' if left is None else left} processes and threads", **found)


def _rest(bounds: Bounds, limits: Limits) -> Check:
    name = "resource-limits"
    if bounds.address is not None and bounds.address < limits.address_space_gib * GIB:
        text = f"addresses are limited to {size(bounds.address)}; CUDA reserves {limits.address_space_gib} GiB and more"
        return failed(name, text, "ulimit -v unlimited before the job; batch systems: limit memory by cgroup instead")
    if bounds.file is not None and bounds.file < limits.file_size_gib * GIB:
        text = f"files are limited to {size(bounds.file)}; checkpoints are larger"
        return failed(name, text, "ulimit -f unlimited before the job")
    return passed(name, "addresses and file sizes are not limited")


def _time(bounds: Bounds, env: Mapping[str, str], now: float) -> Check:
    name = "time-limit"
    if bounds.time is not None:
        text = f"a process may use {bounds.time} s of processor time, then it is killed"
        return failed(name, text, "ulimit -t unlimited before the job; is this a login node?")
    end = env.get("SLURM_JOB_END_TIME", "")
    if not end.isdigit():
        return passed(name, "no limit of processor time; the scheduler does not say when the job ends")
    left = int(end) - now
    if left < SECONDS_LEFT:
        text = f"the job ends in {max(0, left):.0f} s"
        return warned(name, text, "ask for more time: Slurm: --time", seconds=round(left))
    return passed(name, f"the job ends in {left / 60:.0f} min", seconds=round(left))


def _amount(word: str) -> int | None:
    return int(word) if word.isdigit() else None


def _told(limit: int | None) -> str:
    return "unlimited" if limit is None else str(limit)
