"""A node's share of its machine: processors, memory, object store, GPUs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.errors import RefusedError
from orbit.launch.ray.share import (
    LEAST_STORE,
    MOST_STORE,
    cpu_limit,
    find_share,
    gpu_count,
    memory_limit,
    store_size,
    visible_gpus,
)

GIB = 1 << 30


def cgroup(root: Path, files: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/\n")
    for name, text in {"cgroup.controllers": "cpu memory", **files}.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "count"),
    [({"cpu.max": "100000 100000"}, 1), ({"cpu.max": "max 100000"}, None), ({"cpuset.cpus.effective": "0"}, 1),
     ({"cpu.max": "150000 100000"}, 2), ({"cpu.max": "1000 100000"}, 1), ({}, None)],
)  # fmt: skip
def test_processors_are_those_of_the_cgroup(tmp_path: Path, files: dict[str, str], count: int | None) -> None:
    there = len(os.sched_getaffinity(0))
    assert cpu_limit(cgroup(tmp_path, files)) == min(count or there, there)


def test_memory_is_that_of_the_cgroup(tmp_path: Path) -> None:
    assert memory_limit(cgroup(tmp_path / "a", {"memory.max": str(GIB)})) == GIB
    assert memory_limit(cgroup(tmp_path / "b", {"memory.max": "max"})) > GIB // 4


def test_the_object_store_fits_shared_memory_and_memory() -> None:
    assert store_size(16 * GIB, 512 * GIB) == 8 * GIB
    assert store_size(512 * GIB, 100 * GIB) == 30 * GIB
    assert store_size(4096 * GIB, 4096 * GIB) == MOST_STORE
    for shm, memory in ((64 << 20, 512 * GIB), (16 * GIB, 100 << 20)):
        with pytest.raises(RefusedError, match="shm"):
            store_size(shm, memory)
    assert store_size(2 * LEAST_STORE, GIB) == LEAST_STORE


@pytest.mark.parametrize(
    ("value", "ids"),
    [(None, None), ("", ()), ("-1", ()), ("NoDevFiles", ()), ("0,1", ("0", "1")),
     ("GPU-1a2b, GPU-3c", ("GPU-1a2b", "GPU-3c")), ("MIG-5d0f", ("MIG-5d0f",))],
)  # fmt: skip
def test_gpus_are_those_the_scheduler_named(value: str | None, ids: tuple[str, ...] | None) -> None:
    env = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    assert visible_gpus(env) == ids
    assert gpu_count(env, 0) == 0
    if ids is not None:
        assert gpu_count(env, len(ids)) == len(ids)
        with pytest.raises(RefusedError, match="CUDA_VISIBLE_DEVICES"):
            gpu_count(env, len(ids) + 1)


def test_the_share_of_this_machine() -> None:
    share = find_share({}, cpus=1, gpus=0)
    assert share.cpus == 1
    assert find_share({}, cpus=0, gpus=0).cpus == find_share({}, cpus=10_000, gpus=0).cpus == cpu_limit()
    assert LEAST_STORE <= share.store_bytes < share.memory_bytes
