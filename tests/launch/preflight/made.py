"""A machine made of files: /proc, /sys, /dev and /etc below a folder, so that any node can be had."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from orbit.launch.preflight.cgroup import Cgroup
from orbit.launch.preflight.gpu_facts import Card, Device, Driver
from orbit.launch.preflight.memory import Memory
from orbit.launch.preflight.model import Check, Demand, NodeReport, State
from orbit.launch.preflight.rules import load_rules

RULES = load_rules()
GIB = 1 << 30
UUIDS = ("GPU-1a2b3c4d-0000-0000-0000-000000000000", "GPU-5e6f7a8b-0000-0000-0000-000000000000")
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              {time}            unlimited            seconds
Max file size             {file}            unlimited            bytes
Max processes             {nproc}                96364                processes
Max open files            {soft}                {hard}                files
Max locked memory         {locked}              {locked}              bytes
Max address space         {address}            unlimited            bytes
"""
USUAL = {"time": "unlimited", "file": "unlimited", "nproc": "96364", "soft": "1048576", "hard": "1048576",
         "locked": "8388608", "address": "unlimited"}  # fmt: skip


@dataclass
class Machine:
    """The files."""

    root: Path

    def write(self, path: str, text: str) -> Machine:
        there = self.root / path.lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text)
        return self

    def limits(self, **values: str) -> Machine:
        return self.write("/proc/self/limits", LIMITS.format(**(USUAL | values)))

    def status(self, *, cpus: str = "0-7", capabilities: str = "0", uid: int = 1000) -> Machine:
        text = f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nCpus_allowed_list:\t{cpus}\nCapEff:\t{capabilities}\n"
        return self.write("/proc/self/status", text)

    def mount(self, point: str, kind: str, options: str = "rw", own: str = "rw,relatime") -> Machine:
        path = self.root / "proc/self/mountinfo"
        old = path.read_text() if path.exists() else "1 0 0:1 / / rw,relatime - overlay overlay rw\n"
        return self.write(
            "/proc/self/mountinfo", f"{old}2 1 0:2 / {point} {own} shared:1 - {kind} server:/x {options}\n"
        )


def only(checks: Iterable[Check], name: str) -> Check:
    """The one check of that name."""
    there = list(checks)
    found = [check for check in there if check.name == name]
    assert len(found) == 1, [check.name for check in there]
    assert found[0].state is not State.FAILED or found[0].fix, "a failed check says what to do"
    return found[0]


def memory(**values: int | None) -> Memory:
    """A node with 64 GiB of memory and 32 GiB of /dev/shm."""
    usual: dict[str, int | None] = {"total": 64 * GIB, "available": 60 * GIB, "shm": 32 * GIB, "shm_free": 32 * GIB}
    return Memory(**(usual | values))  # type: ignore[arg-type]


def driver(**values: object) -> Driver:
    """A node with two H200 and a driver that is new enough."""
    usual: dict[str, object] = {
        "release": "580.65.06",
        "module": "580.65.06",
        "cuda": "13.0",
        "library": "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06",
        "devices": tuple(Device(name="NVIDIA H200", uuid=uuid, capability="9.0", memory=140 * GIB) for uuid in UUIDS),
        "cards": tuple(Card(index=i, name="NVIDIA H200", uuid=u, total=140 * GIB) for i, u in enumerate(UUIDS)),
        "files": ("nvidia0", "nvidia1", "nvidiactl"),
    }
    return Driver(**(usual | values))  # type: ignore[arg-type]


def report(rank: int, *checks: Check, host: str = "", **values: object) -> NodeReport:
    """What a node says that was asked in a second."""
    return NodeReport(
        rank=rank, host=host or f"gpu-{rank:03}", started="2026-01-01T00:00:00+00:00", seconds=1.0, demand=Demand(),
        checks=checks, **values,  # type: ignore[arg-type]
    )  # fmt: skip


NO_CGROUP = Cgroup()
