"""cgroup and processors: version 1 and 2, quota and set, the least on the way up, from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.launch.preflight.cgroup import Cgroup, count_list, read_cgroup
from orbit.launch.preflight.model import Demand, State
from orbit.launch.preflight.processors import Processors, judge_processors, read_processors
from tests.launch.preflight.made import Machine, only


def test_version_2_takes_the_least_on_the_way_up(tmp_path: Path) -> None:
    machine = Machine(tmp_path).write("/proc/self/cgroup", "0::/kube/pod/c\n")
    machine.write("/sys/fs/cgroup/kube/cpu.max", "200000 100000\n").write(
        "/sys/fs/cgroup/kube/pod/cpu.max", "max 100000\n"
    )
    machine.write("/sys/fs/cgroup/kube/pod/c/cpu.max", "800000 100000\n")
    machine.write("/sys/fs/cgroup/kube/pod/c/memory.max", "max\n").write(
        "/sys/fs/cgroup/kube/memory.max", "8589934592\n"
    )
    machine.write("/sys/fs/cgroup/kube/pod/c/pids.max", "512\n").write("/sys/fs/cgroup/kube/pod/c/pids.current", "17\n")
    machine.write("/sys/fs/cgroup/kube/pod/c/cpuset.cpus.effective", "0-1,8\n")
    assert read_cgroup(tmp_path) == Cgroup(cpus=2.0, cpuset=3, memory_bytes=8 << 30, pids=512, pids_used=17)


def test_version_1(tmp_path: Path) -> None:
    machine = Machine(tmp_path).write(
        "/proc/self/cgroup", "5:cpuset:/d\n4:memory:/d\n3:cpu,cpuacct:/d\n2:pids:/d\n1:name=systemd:/d\n"
    )
    at = "/sys/fs/cgroup"
    machine.write(f"{at}/cpu/d/cpu.cfs_quota_us", "150000\n").write(f"{at}/cpu/d/cpu.cfs_period_us", "100000\n")
    machine.write(f"{at}/memory/d/memory.limit_in_bytes", "9223372036854771712\n")
    machine.write(f"{at}/cpuset/d/cpuset.cpus", "0-3\n").write(f"{at}/pids/d/pids.max", "max\n")
    assert read_cgroup(tmp_path) == Cgroup(cpus=1.5, cpuset=4)


def test_version_1_shown_from_inside_a_container(tmp_path: Path) -> None:
    """The group is the host's path, and only the container's own folder is mounted."""
    machine = Machine(tmp_path).write("/proc/self/cgroup", "4:memory:/docker/abc\n3:cpu:/docker/abc\n")
    machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n")
    machine.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n").write(
        "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"
    )
    assert read_cgroup(tmp_path) == Cgroup(memory_bytes=1 << 30)


def test_no_cgroup_at_all(tmp_path: Path) -> None:
    assert read_cgroup(tmp_path) == Cgroup()


@pytest.mark.parametrize(("words", "count"), [("0-3,8", 5), ("7", 1), ("", 0), ("0-127", 128), ("x", 0)])
def test_lists_of_processors(words: str, count: int) -> None:
    assert count_list(words) == count


@pytest.mark.parametrize(
    ("cgroup", "allowed", "usable", "whole"),
    [
        (Cgroup(cpus=2.0), "0-7", 2.0, 2),
        (Cgroup(cpuset=2), "0-7", 2.0, 2),
        (Cgroup(), "0-1", 2.0, 2),
        (Cgroup(cpus=0.5), "0-7", 0.5, 1),
        (Cgroup(cpus=64.0), "0-7", 8.0, 8),
    ],
)
def test_processors_are_the_least_of_all(
    tmp_path: Path, cgroup: Cgroup, allowed: str, usable: float, whole: int
) -> None:
    Machine(tmp_path).status(cpus=allowed)
    here = read_processors(tmp_path, cgroup)
    assert (here.usable, here.whole) == (usable, whole)


def test_a_host_of_192_and_a_pod_of_2() -> None:
    here = Processors(allowed=192, quota=2.0)
    found = list(judge_processors(here, Demand(cpus=60), {"OMP_NUM_THREADS": "192"}))
    assert only(found, "processors").state is State.FAILED
    assert only(found, "processors").message == "2 hardware threads (the quota of the cgroup), 60 are needed"
    assert only(found, "threads").state is State.WARNING
    assert only(judge_processors(here, Demand(cpus=2), {}), "processors").state is State.PASSED
