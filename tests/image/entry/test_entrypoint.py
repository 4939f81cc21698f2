"""The entry point at work: what it sets, where it writes, what it becomes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from orbit.core.files import tree_hash
from orbit.core.paths import checkout_root
from orbit.env.activate import SOCKETS_BYTES, load_contract
from tests.image.entry.world import CONTRACT, World


def test_it_is_clean_for_shellcheck() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    for name in ("entrypoint.sh", "report.sh"):
        path = checkout_root() / "containers" / name
        done = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)
        assert done.stdout == ""


def test_it_becomes_the_command_in_silence(world: World) -> None:
    done = world.run("sh", "-c", 'echo "[$0] <$1>"; test -w "$TRITON_CACHE_DIR"; exit 7', "name", "a  b")
    assert (done.returncode, done.stdout, done.stderr) == (7, "[name] <a  b>\n", "")
    assert world.state.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_any_shell_will_do(world: World, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    words = {"busybox": ["busybox", "sh"]}.get(shell, [shell])
    script = world.prefix / "bin" / "orbit-entrypoint"
    env = {"PATH": os.environ["PATH"], **world.variables}
    done = subprocess.run([*words, script, "env"], env=env, capture_output=True, text=True, check=True)
    assert f"ORBIT_STATE={world.state}\n" in done.stdout
    assert done.stderr == ""


def test_every_variable_of_the_contract_is_set_whatever_the_caller_had(world: World) -> None:
    hostile = {"LD_LIBRARY_PATH": "/y", "CUDA_HOME": "/usr/local/cuda", "CONDA_PREFIX": "/c", "TMPDIR": "/nowhere"}
    seen = world.seen(**hostile)
    unset = {variable.name for variable in load_contract().variables if variable.how == "unset"}
    assert CONTRACT - unset <= set(seen)
    assert not unset & set(seen)
    cache = f"{world.state}/cache/0123456789ab/no-gpu"
    assert seen["TRITON_CACHE_DIR"] == f"{cache}/triton"
    assert seen["TMPDIR"] == f"{world.state}/tmp"
    assert seen["CUDA_HOME"] == f"{world.prefix}/cuda"
    assert seen["PATH"].split(":")[:2] == [f"{world.prefix}/bin", f"{world.prefix}/cuda/bin"]
    assert seen["PATH"].count(f"{world.prefix}/bin") == 1
    assert all(Path(value).is_dir() for name, value in seen.items() if value.startswith(f"{world.state}/"))


def test_own_libraries_come_first_and_the_platforms_driver_is_found(world: World) -> None:
    """Nothing of the lock is called libcuda.so.1, so what the container runtime mounts is the only one."""
    seen = world.seen(LD_LIBRARY_PATH="/opt/cluster/cudnn/lib:/usr/local/cuda/compat")
    folders = seen["LD_LIBRARY_PATH"].split(":")
    assert folders[0] == f"{world.prefix}/cuda/lib64"
    assert folders[1:] == ["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/.singularity.d/libs"]
    shutil.rmtree(world.prefix / "cuda")
    assert world.seen()["LD_LIBRARY_PATH"].split(":") == folders[1:]
    assert "CUDA_HOME" not in world.seen()


def test_a_compiler_that_is_not_there_is_not_named(world: World) -> None:
    """The wheels of CUDA 12 make a toolkit without nvcc."""
    assert world.seen()["FLASHINFER_NVCC"] == f"{world.prefix}/cuda/bin/nvcc"
    (world.prefix / "cuda" / "bin" / "nvcc").unlink()
    seen = world.seen()
    assert "FLASHINFER_NVCC" not in seen
    assert seen["CUDA_HOME"] == f"{world.prefix}/cuda"
    assert seen["LD_LIBRARY_PATH"].startswith(f"{world.prefix}/cuda/lib64:")


def test_what_the_caller_may_choose_is_kept(world: World) -> None:
    seen = world.seen(NCCL_NVLS_ENABLE="1", CUDA_DEVICE_ORDER="FASTEST_FIRST", XDG_CACHE_HOME="/mine")
    assert (seen["NCCL_NVLS_ENABLE"], seen["CUDA_DEVICE_ORDER"]) == ("1", "FASTEST_FIRST")
    assert seen["XDG_CACHE_HOME"] == "/mine"
    assert world.seen()["NCCL_NVLS_ENABLE"] == "0"


def test_a_second_entry_changes_nothing(world: World) -> None:
    first = world.seen()
    assert world.seen(**first) == first


def test_the_prefix_is_not_touched_and_explaining_writes_nothing_at_all(world: World) -> None:
    before = tree_hash(world.prefix)
    done = world.run("--explain")
    assert done.returncode == 0
    assert not world.state.exists()
    lines = done.stdout.splitlines()
    told = {line.split("=")[0].removeprefix("unset ") for line in lines[::2]}
    assert told >= CONTRACT
    assert {"ORBIT_GPU", "HOME"} - told <= {"HOME"}
    assert all(line.startswith("    ") and len(line) > 14 for line in lines[1::2])
    world.run("true")
    assert tree_hash(world.prefix) == before


def test_verbose_tells_what_was_set(world: World) -> None:
    told = world.warned(ORBIT_ENTRYPOINT_VERBOSE="1")
    assert f"orbit-entrypoint: TMPDIR={world.state}/tmp\n" in told
    assert "state: " in told


def test_by_name_from_another_process_and_by_reading_it(world: World) -> None:
    """What Kubernetes needs, where `command` takes the entry point's place."""
    path = f"{world.prefix}/bin:{os.environ['PATH']}"
    env = {"PATH": path, **world.variables}
    words = ["sh", "-c", "orbit-entrypoint sh -c 'echo $ORBIT_PREFIX $TMPDIR'"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.split() == [str(world.prefix), f"{world.state}/tmp"]
    for shell in ("sh", "bash"):
        if shutil.which(shell) is None:
            continue
        words = [shell, "-euc", '. orbit-entrypoint; echo "$TMPDIR $1"; false || echo alive', "x", "own argument"]
        done = subprocess.run(words, env=env | {"ORBIT_PREFIX": str(world.prefix)}, capture_output=True, text=True)
        assert done.stdout.splitlines() == [f"{world.state}/tmp own argument", "alive"], done.stderr
    words = ["sh", "-c", ". orbit-entrypoint || echo status $?"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "status 4\n"
    assert "ORBIT_PREFIX is not set" in done.stderr


def test_a_warm_start_runs_one_program(world: World) -> None:
    """Each costs about a millisecond; a job comes through here often."""
    tools = world.root / "tools"
    tools.mkdir()
    log = world.root / "log"
    for name in ("mkdir", "sed", "id", "cksum", "ln", "cat", "df", "hostname", "grep", "awk", "dirname", "nvidia-smi"):
        real = shutil.which(name) or "/bin/true"
        (tools / name).write_text(f'#!/bin/sh\necho {name} >> {log}\nexec {real} "$@"\n')
        (tools / name).chmod(0o755)
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "https_proxy": "http://proxy:1"}
    world.write("/proc/net/fib_trie", "")
    world.warned(**env)
    assert sorted(log.read_text().split()) == ["mkdir", "mkdir", "sed"]
    log.unlink()
    world.warned(**env)
    assert log.read_text().split() == ["sed"]


# --- where to write ---------------------------------------------------------------------------------------------------


def test_a_state_folder_that_cannot_be_made_is_a_sentence_and_status_4(world: World) -> None:
    (world.root / "file").write_text("")
    done = world.run("true", ORBIT_STATE=str(world.root / "file" / "state"))
    assert done.returncode == 4
    assert "may not write there" in done.stderr
    assert "fix:" in done.stderr


def test_the_batch_systems_folder_is_used_when_it_is_of_the_node(world: World) -> None:
    scratch = world.root / "d"
    scratch.mkdir()
    for name in ("_CONDOR_SCRATCH_DIR", "SLURM_TMPDIR"):
        assert world.seen(ORBIT_STATE="", **{name: str(scratch)})["ORBIT_STATE"] == f"{scratch}/.orbit"
    default = f"{world.root}/t/orbit-{os.getuid()}"
    assert world.seen(ORBIT_STATE="", SLURM_TMPDIR=str(world.root / "absent"))["ORBIT_STATE"] == default
    world.mounts(f"server:/x {scratch} nfs4 rw 0 0")
    assert world.seen(ORBIT_STATE="", SLURM_TMPDIR=str(scratch))["ORBIT_STATE"] == default


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "fuse.sshfs", "gpfs", "ceph", "9p"])
def test_a_state_on_a_network_file_system_is_told(world: World, kind: str) -> None:
    world.mounts(f"server:/x {world.root} {kind} rw 0 0", f"x {world.root}/other ext4 rw 0 0")
    assert f"is on {kind}" in world.warned()
    assert world.seen()["ORBIT_STATE_FS"] == kind
    world.mounts(f"server:/x {world.root} {kind} rw 0 0", f"x {world.state} ext4 rw 0 0")
    assert world.warned() == ""
    assert world.seen()["ORBIT_STATE_FS"] == "ext4"


def test_a_state_where_nothing_compiled_can_be_loaded_is_told(world: World) -> None:
    world.mounts(f"tmpfs {world.root} tmpfs rw,nosuid,noexec,relatime 0 0")
    assert "noexec" in world.warned()


def test_somebody_elses_folder_is_refused(world: World) -> None:
    """On a shared /tmp anybody can make a folder of that name and leave kernels in it."""
    other = world.root / "theirs"
    other.mkdir()
    (world.root / "t" / f"orbit-{os.getuid()}").symlink_to(other)
    done = world.run("true", ORBIT_STATE="")
    assert done.returncode == 4
    assert "is not a folder of user" in done.stderr
    if os.geteuid() == 0:
        (world.root / "t" / "orbit-0").unlink()
        (world.root / "t" / "orbit-0").mkdir()
        os.chown(world.root / "t" / "orbit-0", 1234, 1234)
        assert world.run("true", ORBIT_STATE="").returncode == 4


# --- sockets ----------------------------------------------------------------------------------------------------------


def ray_socket(folder: str) -> str:
    return f"{folder}/ray/session_2026-11-30_10-00-00_123456_1234567/sockets/plasma_store"


def test_the_budget_is_what_a_socket_can_have() -> None:
    assert len(ray_socket("x" * SOCKETS_BYTES)) == 107
    assert f"orbit_socket_bytes={SOCKETS_BYTES} " in (checkout_root() / "containers" / "entrypoint.sh").read_text()
    with socket.socket(socket.AF_UNIX) as one, pytest.raises(OSError, match="too long"):
        one.bind(ray_socket("/" + "x" * SOCKETS_BYTES))


def test_a_long_state_gets_a_short_name_for_its_sockets(world: World) -> None:
    state = world.root / ("deep" * 20)
    uid = os.getuid()
    seen = world.seen(ORBIT_STATE=str(state))
    short = Path(seen["RAY_TMPDIR"])
    assert short.parent == world.root / "t" / f"orbit-{uid}"
    assert short.resolve() == state
    assert seen["TMPDIR"] == f"{short}/tmp"
    assert seen["TRITON_CACHE_DIR"].startswith(str(state))
    assert world.seen(ORBIT_STATE=str(state))["RAY_TMPDIR"] == str(short)
    assert len(ray_socket(f"/tmp/orbit-{uid}/{short.name}")) <= 107


def test_a_long_state_and_no_short_place_is_told_with_both_numbers(world: World) -> None:
    (world.root / "t").rmdir()
    (world.root / "t").write_text("")
    state = str(world.root / ("deep" * 20))
    told = world.warned(ORBIT_STATE=state)
    assert f"{len(state)} bytes" in told
    assert "107" in told


def test_two_jobs_on_one_node_do_not_meet(world: World) -> None:
    one, other = world.seen(SLURM_JOB_ID="17"), world.seen(SLURM_JOB_ID="18")
    assert Path(one["RAY_TMPDIR"]).name == "j17"
    assert one["RAY_TMPDIR"] != other["RAY_TMPDIR"]
    assert one["TRITON_CACHE_DIR"] == other["TRITON_CACHE_DIR"]


# --- which GPU --------------------------------------------------------------------------------------------------------


def gpu(world: World, **variables: str) -> str:
    seen = world.seen(**variables)
    assert seen["TRITON_CACHE_DIR"] == f"{world.state}/cache/0123456789ab/{seen['ORBIT_GPU']}/triton"
    return seen["ORBIT_GPU"]


def model(world: World, number: int, name: str) -> None:
    world.write(f"/proc/driver/nvidia/gpus/0000:0{number}:00.0/information", f"Model: \t\t {name}\nIRQ:   \t\t 3\n")


def test_caches_belong_to_one_kind_of_gpu(world: World) -> None:
    assert gpu(world) == "no-gpu"
    model(world, 1, "NVIDIA H100 80GB HBM3")
    model(world, 2, "NVIDIA H100 80GB HBM3")
    assert gpu(world) == "NVIDIA-H100-80GB-HBM3"
    assert gpu(world, NVIDIA_VISIBLE_DEVICES="MIG-1234") == "NVIDIA-H100-80GB-HBM3+MIG"
    assert gpu(world, CUDA_VISIBLE_DEVICES="MIG-GPU-5/1/0") == "NVIDIA-H100-80GB-HBM3+MIG"
    model(world, 3, "NVIDIA B200")
    assert gpu(world) == "NVIDIA-H100-80GB-HBM3+NVIDIA-B200"
    assert gpu(world, ORBIT_GPU="from another machine") == "NVIDIA-H100-80GB-HBM3+NVIDIA-B200"
    assert gpu(world, ORBIT_GPU_KEY="my/own key") == "my-own-key"


def test_without_the_drivers_files_the_pci_bus_tells(world: World) -> None:
    for number, (vendor, kind, device) in enumerate(
        [("0x10de", "0x030200", "0x2330"), ("0x10de", "0x068000", "0x22a3"), ("0x8086", "0x030000", "0x1234")]
    ):
        for name, text in (("vendor", vendor), ("class", kind), ("device", device)):
            world.write(f"/sys/bus/pci/devices/0000:0{number}:00.0/{name}", f"{text}\n")
    assert gpu(world) == "no-gpu"
    world.write("/dev/nvidiactl", "")
    assert gpu(world) == "pci-2330"


def test_a_gpu_that_nothing_names_is_not_shared_with_another_machine(world: World) -> None:
    world.write("/dev/dxg", "")
    assert gpu(world) == "unknown-node7"


# --- who --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("home", ["", "/", "/nonexistent"])
def test_a_user_without_home_and_name_gets_both(world: World, home: str) -> None:
    world.write("/proc/self/status", "Uid:\t4321\t4321\t4321\t4321\n")
    seen = world.seen(HOME=home)
    assert (seen["USER"], seen["LOGNAME"], seen["HOME"]) == ("uid-4321", "uid-4321", f"{world.state}/home")


def test_what_the_user_has_is_kept(world: World) -> None:
    world.write("/proc/self/status", "Uid:\t1234\t1234\t1234\t1234\n")
    seen = world.seen(HOME=str(world.root))
    assert (seen["USER"], seen["HOME"]) == ("ann", str(world.root))
    assert world.seen(USER="bob")["LOGNAME"] == "bob"
