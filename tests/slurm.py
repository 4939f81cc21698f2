"""A Slurm of one node for tests: started here where Slurm is installed and root may start it, ended with the test."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = ("srun", "sinfo", "slurmctld", "slurmd", "munged")
CONFIG = """
ClusterName=one
SlurmctldHost={host}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={first}
SlurmdPort={second}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=2
MpiDefault=none
KillWait=10
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=4000 Gres=gpu:2 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES PriorityTier=1 GraceTime=20 State=UP
PartitionName=first Nodes=ALL PriorityTier=2 PreemptMode=OFF State=UP
"""
GPUS = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n"
"""Two devices that Slurm counts and hands out; nothing else about them is a GPU."""


@contextlib.contextmanager
def one_node() -> Iterator[dict[str, str]]:
    """Variables with which Slurm's programs reach a cluster of one node with two devices of kind gpu.

    Its partition ``first`` takes nodes from jobs of ``p``, which get SIGTERM and 20 s. Skips where it cannot be had.
    """
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"Slurm is not here: {', '.join(missing)}" if missing else "starting Slurm needs root")
    folder = Path(tempfile.mkdtemp(prefix="slurm"))
    try:
        for name in ("munge", "state", "spool"):
            (folder / name).mkdir()
        folder.chmod(0o755)
        (folder / "munge/key").write_bytes(os.urandom(1024))
        (folder / "munge/key").chmod(0o400)
        text = CONFIG.format(
            folder=folder, host=socket.gethostname().split(".")[0], cpus=os.cpu_count(),
            first=free_port(), second=free_port(),
        )  # fmt: skip
        (folder / "slurm.conf").write_text(text)
        (folder / "gres.conf").write_text(GPUS)
        start(folder, {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")})
        yield {"SLURM_CONF": str(folder / "slurm.conf")}
    finally:
        for name in ("slurmd.pid", "slurmctld.pid", "munge/pid"):
            if (folder / name).is_file():
                end(int((folder / name).read_text()))
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start(folder: Path, env: dict[str, str]) -> None:
    """munged, slurmctld, slurmd; wait until the node is idle."""
    munge = {name: folder / "munge" / name for name in ("socket", "key", "pid", "log", "seed")}
    words = ["munged", "--force", *(f"--{name}-file={path}" for name, path in munge.items() if name != "socket")]
    commands = [[*words, f"--socket={munge['socket']}"], ["slurmctld"], ["slurmd"]]
    for command in commands:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            pytest.skip(f"{command[0]} does not start here: {done.stderr.strip()[-200:]}")
    said = ""
    for _ in range(120):
        done = subprocess.run(["sinfo", "--noheader", "-o", "%t"], env=env, capture_output=True, text=True, check=False)
        said = done.stdout.strip()
        if set(said.split()) == {"idle"}:
            return
        time.sleep(0.5)
    pytest.skip(f"the node does not come up: {said} {(folder / 'slurmd.log').read_text()[-300:]}")


def end(pid: int) -> None:
    """SIGTERM, and SIGKILL five seconds later."""
    for number in (15, 9):
        for _ in range(50):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return
            time.sleep(0.1)


def open_files() -> int:
    """How many files a job of this cluster may have open, at most: what this process may, who starts it."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]
