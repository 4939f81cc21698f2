"""limits: open files, locked memory, processes, addresses, time."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from orbit.launch.preflight.cgroup import Cgroup
from orbit.launch.preflight.limits import Bounds, judge_bounds, raise_open_files, read_bounds
from orbit.launch.preflight.model import Check, Demand, State
from tests.launch.preflight.made import RULES, Machine, only


def judge(
    bounds: Bounds, name: str, *, rdma: bool = False, demand: Demand | None = None, now: float = 0.0, **env: str
) -> Check:
    return only(judge_bounds(bounds, demand or Demand(), RULES.limits, env, rdma=rdma, now=now), name)


@pytest.mark.parametrize(
    ("soft", "hard", "state"),
    [("1024", "1024", State.FAILED), ("1024", "1048576", State.FAILED), ("65536", "65536", State.PASSED),
     ("unlimited", "unlimited", State.PASSED)],
)  # fmt: skip
def test_open_files(tmp_path: Path, soft: str, hard: str, state: State) -> None:
    Machine(tmp_path).limits(soft=soft, hard=hard).status()
    check = judge(read_bounds(tmp_path, Cgroup()), "open-files")
    assert check.state is state
    if state is State.FAILED:
        assert "1024" in check.message
        assert "65536 are needed" in check.message
        assert "ulimit" in check.fix


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        assert raise_open_files() == (before[1], before[1])
        assert read_bounds(Path("/"), Cgroup()).nofile[0] == (None if before[1] < 0 else before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_locked_memory_matters_with_rdma_alone(tmp_path: Path) -> None:
    Machine(tmp_path).limits(locked="65536").status()
    bounds = read_bounds(tmp_path, Cgroup())
    wanted = Demand(rdma="wanted")
    assert judge(bounds, "locked-memory", rdma=False, demand=wanted).state is State.PASSED
    check = judge(bounds, "locked-memory", rdma=True, demand=wanted)
    assert check.state is State.FAILED
    assert "64 KiB" in check.message
    assert "no effect for a user other than root" in check.fix


def test_locked_memory_of_who_has_the_capability(tmp_path: Path) -> None:
    Machine(tmp_path).limits(locked="65536").status(capabilities="0000000000004000", uid=0)
    bounds = read_bounds(tmp_path, Cgroup())
    assert bounds.locked_bytes == -1
    assert judge(bounds, "locked-memory", rdma=True, demand=Demand(rdma="required")).state is State.PASSED


def test_processes_that_earlier_runs_used_up() -> None:
    check = judge(Bounds(pids=4096, pids_used=3900), "processes")
    assert check.state is State.FAILED
    assert "196 more processes and threads (of 4096, 3900 used), 2048 are needed" in check.message
    assert judge(Bounds(pids=4096, pids_used=20), "processes").state is State.PASSED
    assert judge(Bounds(nproc=512, uid=1000), "processes").state is State.FAILED
    assert judge(Bounds(nproc=512, uid=0), "processes").state is State.PASSED


@pytest.mark.parametrize(
    ("limit", "word"), [("address", "addresses are limited to 32 GiB"), ("file", "files are limited")]
)
def test_limits_of_login_nodes(limit: str, word: str) -> None:
    check = judge(Bounds(**{limit: 32 << 30}), "resource-limits")  # type: ignore[arg-type]
    assert check.state is State.FAILED
    assert word in check.message


def test_time() -> None:
    assert judge(Bounds(time=3600), "time-limit").state is State.FAILED
    soon = judge(Bounds(), "time-limit", now=1000.0, SLURM_JOB_END_TIME="1060")
    assert (soon.state, soon.message) == (State.WARNING, "the job ends in 60 s")
    assert judge(Bounds(), "time-limit", now=1000.0, SLURM_JOB_END_TIME="8200").message == "the job ends in 120 min"
    assert judge(Bounds(), "time-limit").state is State.PASSED
