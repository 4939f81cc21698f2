"""A small Slurm for tests: started here where Slurm is installed and root may start it, ended with the test."""

from __future__ import annotations

import contextlib
import os
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
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmctldPort={first}
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
PartitionName=p Nodes=ALL Default=YES PriorityTier=1 GraceTime=20 State=UP
PartitionName=first Nodes=ALL PriorityTier=2 PreemptMode=OFF State=UP
"""
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr={address} Port={port} CPUs={cpus} RealMemory=4000 Gres=gpu:2 "
    "State=UNKNOWN"
)
GPUS = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n"
"""Two devices that Slurm counts and hands out; nothing else about them is a GPU."""


def one_node() -> contextlib.AbstractContextManager[dict[str, str]]:
    """:func:`cluster` of one node, which has this machine's name."""
    return cluster([socket.gethostname().split(".")[0]])


def two_nodes() -> contextlib.AbstractContextManager[dict[str, str]]:
    """:func:`cluster` of two nodes on this machine; their names are addresses, so that every program finds them."""
    return cluster(["127.0.0.1", "127.0.0.2"])


@contextlib.contextmanager
def cluster(names: list[str]) -> Iterator[dict[str, str]]:
    """Variables with which Slurm's programs reach a cluster whose nodes have two devices of kind gpu each.

    Its partition ``first`` takes nodes from jobs of ``p``, which get SIGTERM and 20 s. Skips where it cannot be had.
    """
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"Slurm is not here: {', '.join(missing)}" if missing else "starting Slurm needs root")
    folder = Path(tempfile.mkdtemp(prefix="slurm"))
    try:
        for name in ("munge", "state"):
            (folder / name).mkdir()
        folder.chmod(0o755)
        (folder / "munge/key").write_bytes(os.urandom(1024))
        (folder / "munge/key").chmod(0o400)
        host = socket.gethostname().split(".")[0]
        lines = [
            NODE.format(name=name, host=host, address=f"127.0.0.{place}", port=free_port(), cpus=os.cpu_count())
            for place, name in enumerate(names, start=1)
        ]
        text = CONFIG.format(folder=folder, host=host, first=free_port())
        (folder / "slurm.conf").write_text(text.replace("PartitionName", "\n".join(lines) + "\nPartitionName", 1))
        (folder / "gres.conf").write_text(GPUS)
        start(folder, names, {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")})
        yield {"SLURM_CONF": str(folder / "slurm.conf")}
    finally:
        for path in (*folder.glob("slurmd-*.pid"), folder / "slurmctld.pid", folder / "munge/pid"):
            if path.is_file():
                end(int(path.read_text()))
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start(folder: Path, names: list[str], env: dict[str, str]) -> None:
    """munged, slurmctld, a slurmd for each node; wait until all are idle."""
    munge = {name: folder / "munge" / name for name in ("socket", "key", "pid", "log", "seed")}
    words = ["munged", "--force", *(f"--{name}-file={path}" for name, path in munge.items() if name != "socket")]
    commands = [[*words, f"--socket={munge['socket']}"], ["slurmctld"], *(["slurmd", "-N", name] for name in names)]
    for command in commands:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            pytest.skip(f"{command[0]} does not start here: {done.stderr.strip()[-200:]}")
    said = ""
    for _ in range(120):
        words = ["sinfo", "--noheader", "--Node", "--partition=p", "-o", "%t"]
        said = subprocess.run(words, env=env, capture_output=True, text=True, check=False).stdout.strip()
        if said.split() == ["idle"] * len(names):
            return
        time.sleep(0.5)
    logs = "".join(path.read_text()[-300:] for path in folder.glob("slurmd-*.log"))
    pytest.skip(f"the nodes do not come up: {said} {logs}")


def end(pid: int) -> None:
    """SIGTERM, and SIGKILL five seconds later."""
    for number in (15, 9):
        for _ in range(50):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return
            time.sleep(0.1)
