"""What the cgroup of this process allows, version 1 and 2: the least on the way up counts (cgroups(7))."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from orbit.launch.preflight.below import number, text

NO_LIMIT = 1 << 62
"""Version 1 writes "no limit" as the largest number of pages, which is above this in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroup:
    """Limits; None: there is none."""

    cpus: float | None = None
    """Of the quota: processors' worth of time."""
    cpuset: int | None = None
    """Processors of the set."""
    memory_bytes: int | None = None
    pids: int | None = None
    pids_used: int | None = None


def read_cgroup(root: Path) -> Cgroup:
    """The limits of this process below ``root``."""
    own = _own(root)
    if "" in own:
        base, group = "sys/fs/cgroup", own[""]
        return Cgroup(
            cpus=_least(root, base, group, _quota2),
            cpuset=_least(root, base, group, _set2),
            memory_bytes=_least(root, base, group, lambda r, at: number(r, f"{at}/memory.max")),
            pids=_least(root, base, group, lambda r, at: number(r, f"{at}/pids.max")),
            pids_used=number(root, f"{base}{group}/pids.current"),
        )

    def of[T: (int, float)](kind: str, ask: Callable[[Path, str], T | None]) -> T | None:
        return _least(root, f"sys/fs/cgroup/{kind}", own[kind], ask) if kind in own else None

    memory = of("memory", lambda r, at: number(r, f"{at}/memory.limit_in_bytes"))
    return Cgroup(
        cpus=of("cpu", _quota1),
        cpuset=of("cpuset", lambda r, at: _count(text(r, f"{at}/cpuset.cpus"))),
        memory_bytes=memory if memory is not None and memory < NO_LIMIT else None,
        pids=of("pids", lambda r, at: number(r, f"{at}/pids.max")),
        pids_used=of("pids", lambda r, at: number(r, f"{at}/pids.current")),
    )


def count_list(words: str) -> int:
    """How many a list such as ``0-3,8`` names."""
    total = 0
    for part in words.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            total += int(last or first) - int(first) + 1
    return total


def _own(root: Path) -> dict[str, str]:
    """Controller (of version 1; "" is version 2) -> group of this process, without a slash at its end."""
    found: dict[str, str] = {}
    for line in text(root, "proc/self/cgroup").splitlines():
        _, kinds, group = (*line.split(":", 2), "", "")[:3]
        for kind in kinds.split(","):
            found[kind] = group.rstrip("/")
    if len(found) > 1 and not text(root, "sys/fs/cgroup/cgroup.controllers"):
        found.pop("", None)  # a mix of both: the controllers are those of version 1
    return found


def _up(base: str, group: str) -> Iterator[str]:
    while True:
        yield f"{base}{group}"
        if not group:
            return
        group = group.rpartition("/")[0]


def _least[T: (int, float)](root: Path, base: str, group: str, ask: Callable[[Path, str], T | None]) -> T | None:
    found = [value for at in _up(base, group) if (value := ask(root, at)) is not None]
    return min(found) if found else None


def _quota2(root: Path, at: str) -> float | None:
    words = text(root, f"{at}/cpu.max").split()
    if len(words) != 2 or not words[0].isdigit() or not int(words[1]):
        return None
    return int(words[0]) / int(words[1])


def _quota1(root: Path, at: str) -> float | None:
    quota, period = number(root, f"{at}/cpu.cfs_quota_us"), number(root, f"{at}/cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None


def _set2(root: Path, at: str) -> int | None:
    return _count(text(root, f"{at}/cpuset.cpus.effective"))


def _count(words: str) -> int | None:
    return count_list(words) or None
