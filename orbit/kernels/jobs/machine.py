"""What this machine can give: cores and memory, by the kernel and by the control group this process is in.

Sources: proc(5) and cgroups(7). Version 2 has ``memory.max``, ``memory.current`` and ``cpu.max`` in every folder from
the process's own up to the root, and each of them binds; version 1 has ``memory.limit_in_bytes``,
``memory.usage_in_bytes`` and ``cpu.cfs_quota_us`` under one folder per controller.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
ROOT = Path("/")
LIMITS = (("memory.max", "memory.current", "inactive_file"),
          ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))  # fmt: skip
"""(limit, use, line of ``memory.stat`` for file pages that are given back when asked for), versions 2 and 1."""


def usable_cores(root: Path = ROOT) -> int:
    """Cores this process may use: its affinity, or the control group's quota (rounded up) when that is less."""
    cores = len(os.sched_getaffinity(0))
    for folder in _groups(root, "cpu"):
        quota, period = _quota(folder)
        if quota > 0 and period > 0:
            cores = min(cores, math.ceil(quota / period))
    return max(1, cores)


def memory_total_bytes(root: Path = ROOT) -> int:
    """All memory of the machine, or of the control group when that is less."""
    return min([_meminfo(root)["MemTotal"], *(limit for limit, _used in _memory(root))])


def memory_available_bytes(root: Path = ROOT) -> int:
    """Memory the machine can give right now: MemAvailable, or what the control groups leave when that is less.

    File pages that nobody used lately are given back on demand, so they do not count as used in a group; a build
    reads and writes gigabytes and would look full otherwise.
    """
    return max(0, min([_meminfo(root)["MemAvailable"], *(limit - used for limit, used in _memory(root))]))


def resident_of(pids: Collection[int], root: Path = ROOT) -> dict[int, int]:
    """Bytes that each process of ``pids`` and its descendants hold and share with no file.

    A process below two of them counts for the nearer one. Pages of programs and libraries are left out: a compiler
    that runs 64 times has them in memory once. A process that is gone, or hidden from us, has 0.
    """
    held = dict.fromkeys(pids, 0)
    parents: dict[int, int] = {}
    for name in os.listdir(root / "proc") if pids else ():
        if name.isdigit() and (text := _read(root / "proc" / name / "stat")):
            # the command name is in parentheses and may itself hold spaces and parentheses (proc(5))
            parents[int(name)] = int(text.rpartition(")")[2].split()[1])
    for pid in parents:
        owner = pid
        while owner > 1 and owner not in held:
            owner = parents.get(owner, 0)
        if owner in held:
            pages = _read(root / "proc" / str(pid) / "statm").split()
            held[owner] += (int(pages[1]) - int(pages[2])) * PAGE_BYTES if len(pages) > 2 else 0
    return held


def _meminfo(root: Path) -> dict[str, int]:
    lines = (line.partition(":") for line in (root / "proc/meminfo").read_text(encoding="ascii").splitlines())
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in lines if rest.split()}


def _memory(root: Path) -> Iterator[tuple[int, int]]:
    """(limit, used without idle file pages) of every control group that limits this process's memory."""
    for folder in _groups(root, "memory"):
        for limit_name, used_name, idle_name in LIMITS:
            limit, used = _read(folder / limit_name).strip(), _read(folder / used_name).strip()
            if limit.isdigit() and used.isdigit() and int(limit) < 2**60:  # version 1 says "none" as a huge number
                stat = dict(
                    line.split(maxsplit=1) for line in _read(folder / "memory.stat").splitlines() if " " in line
                )
                yield int(limit), max(0, int(used) - int(stat.get(idle_name, 0)))


def _quota(folder: Path) -> tuple[float, float]:
    words = _read(folder / "cpu.max").split() or [
        _read(folder / "cpu.cfs_quota_us").strip(), _read(folder / "cpu.cfs_period_us").strip(),
    ]  # fmt: skip
    try:
        return float(words[0]), float(words[1])
    except (ValueError, IndexError):
        return 0.0, 0.0  # "max", -1 or no such file: no quota


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's control groups that can limit ``controller``, innermost first."""
    top = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = top / controller if controllers else top
        folder = base / path.lstrip("/")
        # in a container the path may be the host's and lead nowhere here; what is mounted at the top still binds
        while True:
            if folder.is_dir():
                yield folder
            if folder in (base, root):
                break
            folder = folder.parent


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
