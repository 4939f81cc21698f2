"""What the machine can give: the kernel's figures and the control groups of both versions, from written /proc trees."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.kernels.jobs.machine import (
    PAGE_BYTES,
    memory_available_bytes,
    memory_total_bytes,
    resident_of,
    usable_cores,
)
from tests.core.processes import until

GIB = 2**30


def tree(root: Path, files: dict[str, str]) -> Path:
    (root / "proc").mkdir(parents=True, exist_ok=True)
    (root / "proc/meminfo").write_text(
        f"MemTotal:  {64 * 1024**2} kB\nMemFree: 1 kB\nMemAvailable: {50 * 1024**2} kB\nHugePages_Total: 0\n"
    )
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V2 = {
    "proc/self/cgroup": "0::/pod/box\n",
    "sys/fs/cgroup/pod/memory.max": f"{32 * GIB}\n",
    "sys/fs/cgroup/pod/memory.current": f"{10 * GIB}\n",
    "sys/fs/cgroup/pod/memory.stat": f"anon 1\ninactive_file {2 * GIB}\nactive_file 7\n",
    "sys/fs/cgroup/pod/box/memory.max": "max\n",
    "sys/fs/cgroup/pod/box/memory.current": f"{5 * GIB}\n",
    "sys/fs/cgroup/pod/box/cpu.max": "150000 100000\n",
}
V1 = {
    "proc/self/cgroup": "9:name=systemd:/\n4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n",
    "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{16 * GIB}\n",
    "sys/fs/cgroup/memory/box/memory.usage_in_bytes": f"{4 * GIB}\n",
    "sys/fs/cgroup/memory/box/memory.stat": f"inactive_file 5\ntotal_inactive_file {GIB}\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{40 * GIB}\n",
    "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "100000\n",
    "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
}


@pytest.mark.parametrize(
    ("files", "total", "available"),
    [
        ({}, 64, 50),
        (V2, 32, 24),  # the outer group binds, its idle file pages are given back
        (V1, 16, 13),
        ({"proc/self/cgroup": "0::/../elsewhere\n", "sys/fs/cgroup/memory.max": f"{8 * GIB}",
          "sys/fs/cgroup/memory.current": f"{9 * GIB}"}, 8, 0),
        ({"proc/self/cgroup": "0::/gone\n", "sys/fs/cgroup/memory.max": f"{8 * GIB}",
          "sys/fs/cgroup/memory.current": f"{3 * GIB}"}, 8, 5),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "what?", "sys/fs/cgroup/memory.current": "1"},
         64, 50),
    ],
)  # fmt: skip
def test_the_smallest_limit_binds(tmp_path: Path, files: dict[str, str], total: int, available: int) -> None:
    root = tree(tmp_path, files)
    assert memory_total_bytes(root) == total * GIB
    assert memory_available_bytes(root) == available * GIB


@pytest.mark.parametrize(("files", "cores"), [(V2, 2), (V1, 1), ({}, 10_000)])
def test_a_quota_limits_cores_and_is_rounded_up(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    assert usable_cores(tree(tmp_path, files)) == min(cores, len(os.sched_getaffinity(0)))


def test_this_machine_has_figures() -> None:
    assert 0 < memory_available_bytes() <= memory_total_bytes()
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_a_process_counts_for_the_nearest_of_its_ancestors(tmp_path: Path) -> None:
    tree(tmp_path, {})
    for pid, parent, resident, shared in ((10, 1, 5, 1), (11, 10, 100, 20), (12, 11, 7, 7), (20, 1, 1000, 0),
                                          (30, 10, 50, 0), (31, 30, 3, 1)):  # fmt: skip
        (tmp_path / f"proc/{pid}").mkdir()
        (tmp_path / f"proc/{pid}/stat").write_text(f"{pid} (a ) b) S {parent} 0 0")
        (tmp_path / f"proc/{pid}/statm").write_text(f"9999 {resident} {shared} 0 0 0 0")
    assert resident_of({10, 30, 99}, tmp_path) == {10: 84 * PAGE_BYTES, 30: 52 * PAGE_BYTES, 99: 0}
    assert resident_of((), tmp_path) == {}


def test_memory_of_real_processes_is_seen() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = b\"a\" * (64 << 20); input()'])"
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    try:
        assert until(lambda: resident_of({child.pid})[child.pid] > 64 << 20)
        assert resident_of({child.pid})[child.pid] < 128 << 20
    finally:
        child.communicate(b"\n")
