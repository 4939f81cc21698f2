"""What the entry point tells about its container: each failure people had, seen from the files a kernel would show."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from tests.image.entry.world import LIMITS, World


def test_64_mb_of_shared_memory_are_told_with_the_fix(world: World) -> None:
    world.mounts("shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0")
    assert world.warned() == ""  # the fake folder is not at /dev/shm
    world.mounts(f"shm {world.root}/fake/dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0")
    told = world.warned()
    assert "/dev/shm holds 64 MB" in told
    assert "--shm-size" in told
    assert "emptyDir" in told
    for line in ("size=16777216k,inode64", "inode64"):
        world.mounts(f"shm {world.root}/fake/dev/shm tmpfs rw,{line} 0 0")
        assert world.warned() == ""


def test_open_files_are_raised_as_far_as_allowed(world: World) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    want = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    world.write("/proc/self/limits", LIMITS.replace("65536 ", "256 ").replace("1048576", str(want)))
    words = ["sh", "-c", 'ulimit -S -n 256; "$1" sh -c "ulimit -S -n"', "x", world.prefix / "bin" / "orbit-entrypoint"]
    env = {"PATH": os.environ["PATH"], **world.variables}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(want)
    assert (done.stderr == "") is (want == 65536)
    world.write("/proc/self/limits", LIMITS.replace("65536 ", "512 ").replace("1048576", "1024"))
    done = world.run("sh", "-c", "ulimit -S -n")
    assert done.stdout.strip() == "1024"
    assert "at most 1024 open files" in done.stderr


def test_a_small_stack_is_raised(world: World) -> None:
    world.write("/proc/self/limits", LIMITS.replace("8388608              unlimited", "1048576  unlimited"))
    done = world.run("sh", "-c", "ulimit -S -s")
    assert (done.stdout.strip(), done.stderr) == ("8192", "")


def test_locked_memory_matters_only_with_rdma(world: World) -> None:
    assert world.warned() == ""
    world.write("/dev/infiniband/uverbs0", "")
    assert "at most 8388608 bytes of locked memory" in world.warned()
    world.write("/proc/self/limits", LIMITS.replace("8388608              8388608", "unlimited  unlimited"))
    assert world.warned() == ""


def test_rdma_of_the_host_that_is_not_in_the_container(world: World) -> None:
    world.write("/sys/class/infiniband/mlx5_0/name", "")
    assert world.warned() == ""  # without a GPU nobody cares
    world.write("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t NVIDIA B200\n")
    told = world.warned()
    assert "mlx5_0" in told
    assert "TCP" in told


# --- cgroups ----------------------------------------------------------------------------------------------------------


def limits(world: World, **variables: str) -> tuple[str | None, str | None, str | None]:
    seen = world.seen(**variables)
    return seen.get("ORBIT_CPU_LIMIT"), seen.get("ORBIT_MEMORY_LIMIT"), seen.get("OMP_NUM_THREADS")


def test_no_limit_no_variable(world: World) -> None:
    assert limits(world) == (None, None, None)
    world.write("/sys/fs/cgroup/cpu.max", "max 100000\n")
    world.write("/sys/fs/cgroup/memory.max", "max\n")
    assert limits(world) == (None, None, None)


def test_version_2_the_least_on_the_way_up(world: World) -> None:
    world.write("/proc/self/cgroup", "0::/system.slice/job_1/step_0\n")
    world.write("/sys/fs/cgroup/system.slice/job_1/cpu.max", "150000 100000\n")
    world.write("/sys/fs/cgroup/system.slice/job_1/step_0/cpu.max", "400000 100000\n")
    world.write("/sys/fs/cgroup/system.slice/memory.max", "8589934592\n")
    world.write("/sys/fs/cgroup/system.slice/job_1/memory.max", "max\n")
    assert limits(world) == ("2", "8589934592", "2")
    assert limits(world, OMP_NUM_THREADS="7")[2] == "7"


def test_version_1(world: World) -> None:
    world.write(
        "/proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/ab\n3:cpu,cpuacct:/docker/ab\n2:pids:/docker/ab\n"
    )
    world.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n")
    world.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n")
    world.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert limits(world) == ("3", "1073741824", "3")
    world.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    world.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    assert limits(world) == (None, None, None)
    assert world.warned() == ""
    world.write("/sys/fs/cgroup/pids/pids.max", "1024\n")
    assert "at most 1024 processes" in world.warned()


def test_few_processes_are_told(world: World) -> None:
    world.write("/sys/fs/cgroup/pids.max", "512\n")
    told = world.warned()
    assert "at most 512 processes" in told
    assert "podPidsLimit" in told


# --- what came along from the host ------------------------------------------------------------------------------------

TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 10.1.2.3
        /32 host LOCAL
     |-- 10.1.2.255
        /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
"""


def test_a_proxy_spares_this_machine(world: World) -> None:
    world.write("/proc/net/fib_trie", TRIE)
    seen = world.seen()
    assert "no_proxy" not in seen
    seen = world.seen(https_proxy="http://proxy:3128", no_proxy="example.org,10.1.2.3", MASTER_ADDR="10.9.9.9")
    assert seen["no_proxy"] == "example.org,10.1.2.3,127.0.0.1,localhost,0.0.0.0,::1,node7,10.9.9.9"
    assert seen["NO_PROXY"] == seen["no_proxy"]
    assert world.seen(HTTP_PROXY="http://proxy:3128")["NO_PROXY"].endswith("node7,10.1.2.3")
    assert world.seen(HTTP_PROXY="http://proxy:3128", NO_PROXY="*")["NO_PROXY"] == "*"


def test_a_compiler_of_the_host_is_dropped(world: World) -> None:
    done = world.run("env", CC="/opt/cluster/gcc/bin/gcc -m64", CXX="env")
    assert "\nCC=" not in done.stdout
    assert "CXX=env\n" in done.stdout
    assert "CC=/opt/cluster/gcc/bin/gcc -m64 is not in this image" in done.stderr


def test_what_cannot_be_preloaded_is_told(world: World, tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    assert "is not in this image" in world.run("--explain", LD_PRELOAD=f"{library}").stderr


def test_modules_of_the_caller_are_not_lost_in_silence(world: World) -> None:
    done = world.run("env", PYTHONPATH="/mine")
    assert "PYTHONPATH=/mine is not used" in done.stderr
    assert "\nPYTHONPATH=" not in done.stdout


@pytest.mark.parametrize("chosen", ["", "cuda_ipc"])
def test_where_gpu_memory_cannot_be_passed_on_adapters_go_another_way(world: World, chosen: str) -> None:
    scratch = world.root / "scratch"
    scratch.mkdir()
    name = "ORBIT_PEFT_ADAPTER_TRANSPORT"
    assert name not in world.seen()
    assert world.seen(_CONDOR_SCRATCH_DIR=str(scratch), **{name: chosen})[name] == (chosen or "cpu_gather")
