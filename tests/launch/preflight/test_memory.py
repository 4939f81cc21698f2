"""memory: /dev/shm, main memory and the object store, from files and from made-up amounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.launch.preflight.memory import judge_memory, object_store_bytes, read_memory
from orbit.launch.preflight.model import Demand, State
from orbit.launch.preflight.mounts import read_mounts
from tests.launch.preflight.made import GIB, NO_CGROUP, RULES, Machine, memory, only

MEMINFO = "MemTotal:       67108864 kB\nMemFree: 1 kB\nMemAvailable:   60000000 kB\n"


@pytest.mark.parametrize(
    ("size", "wanted", "state", "words"),
    [
        ("65536k", 16, State.FAILED, "/dev/shm holds 64 MiB, 16 GiB are needed"),
        ("64m", 16, State.FAILED, "holds 64 MiB, 16 GiB are needed"),
        ("17179869184", 16, State.PASSED, "holds 16 GiB"),
        ("64m", 0, State.WARNING, "want 1 GiB"),
    ],
)
def test_shared_memory_is_what_the_mount_says(tmp_path: Path, size: str, wanted: int, state: State, words: str) -> None:
    machine = Machine(tmp_path).write("/proc/meminfo", MEMINFO).mount("/dev/shm", "tmpfs", f"rw,size={size}")
    (tmp_path / "dev/shm").mkdir(parents=True)
    found = read_memory(tmp_path, NO_CGROUP, read_mounts(machine.root))
    # what is free is that of the disk the test runs on: only the size is made up
    full = type(found)(total=found.total, available=found.available, shm=found.shm, shm_free=found.shm)
    check = only(judge_memory(full, Demand(shm_gib=wanted), RULES.limits), "shared-memory")
    assert check.state is state
    assert words in check.message
    if state is State.FAILED:
        assert "--shm-size=16g" in check.fix
        assert "emptyDir" in check.fix


def test_without_shared_memory() -> None:
    check = only(judge_memory(memory(shm=None, shm_free=None), Demand(), RULES.limits), "shared-memory")
    assert check.state is State.FAILED


def test_shared_memory_that_another_job_fills_is_told() -> None:
    check = only(judge_memory(memory(shm_free=GIB), Demand(shm_gib=16), RULES.limits), "shared-memory")
    assert check.state is State.WARNING
    assert "only 1 GiB of it are free" in check.message


def test_the_cgroup_counts_not_the_machine() -> None:
    check = only(judge_memory(memory(limit=8 * GIB), Demand(memory_gib=32), RULES.limits), "memory")
    assert check.state is State.FAILED
    assert check.message == "the cgroup allows 8 GiB, 32 GiB are needed"


def test_a_machine_of_64_gib_has_a_little_less() -> None:
    check = only(judge_memory(memory(total=int(63.4 * GIB)), Demand(memory_gib=64), RULES.limits), "memory")
    assert check.state is not State.FAILED


def test_shared_memory_larger_than_the_memory_limit() -> None:
    found = memory(limit=8 * GIB)
    check = only(judge_memory(found, Demand(shm_gib=16), RULES.limits), "memory")
    assert check.state is State.FAILED
    assert "counts as memory" in check.message


def test_the_object_store_fits_both() -> None:
    assert object_store_bytes(memory(limit=8 * GIB, shm_free=2 * GIB), RULES.limits) == int(2 * GIB * 0.9)
    assert object_store_bytes(memory(limit=8 * GIB), RULES.limits) == int(8 * GIB * 0.3)
    little = memory(shm_free=64 << 20)
    assert only(judge_memory(little, Demand(), RULES.limits), "object-store").state is State.WARNING
    check = only(judge_memory(little, Demand(shm_gib=16), RULES.limits), "object-store")
    assert check.state is State.FAILED
    assert "75 MiB are the least" in check.message


def test_nothing_known_is_no_crash(tmp_path: Path) -> None:
    found = read_memory(tmp_path, NO_CGROUP, ())
    assert (found.total, found.shm) == (0, None)
    assert {check.name for check in judge_memory(found, Demand(), RULES.limits)} >= {"shared-memory", "object-store"}
