"""The checks inside a Slurm job: a cluster of one node, started here where Slurm is installed and root may start it.

What a job brings along from its submit host (PYTHONPATH, a compiler, a proxy) comes into the container too, as it does
with Apptainer: bubblewrap keeps the environment unless told otherwise.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.records import load_json
from orbit.core.store import Store
from orbit.image.oci import read_layout
from orbit.image.rootfs import unpack_image
from orbit.image.smoke.report import SmokeReport
from tests.image.smoke.real import PREFIX, real_image
from tests.image.tiny import working
from tests.writers.junit import check_junit

pytestmark = pytest.mark.integration
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
SelectType=select/linear
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=500 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES State=UP
"""
LIST = """
schema = 1
name = "in-job"
[[checks]]
name = "identity"
kind = "identity"
parameters = {read_only = ["/", "{prefix}"]}
[[checks]]
name = "contract"
kind = "contract"
parameters = {caches = ["TRITON_CACHE_DIR"]}
[[checks]]
name = "import"
kind = "import"
parameters = {modules = ["orbit", "example"]}
[[checks]]
name = "handles"
kind = "memory-handles"
[[checks]]
name = "gpu"
kind = "visible-devices"
needs = "gpu"
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """Variables with which srun reaches a Slurm of one node."""
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
        env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        start(folder, env)
        yield {"SLURM_CONF": env["SLURM_CONF"]}
    finally:
        for name in ("slurmd.pid", "slurmctld.pid", "munge/pid"):
            if (folder / name).is_file():
                end(int((folder / name).read_text()))
        shutil.rmtree(folder, ignore_errors=True)


def start(folder: Path, env: dict[str, str]) -> None:
    munge = {name: folder / "munge" / name for name in ("socket", "key", "pid", "log", "seed")}
    words = ["munged", "--force", *(f"--{name}-file={path}" for name, path in munge.items() if name != "socket")]
    commands = [[*words, f"--socket={munge['socket']}"], ["slurmctld"], ["slurmd"]]
    for command in commands:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            pytest.skip(f"{command[0]} does not start here: {done.stderr.strip()[-200:]}")
    for _ in range(120):
        done = subprocess.run(["sinfo", "--noheader", "-o", "%t"], env=env, capture_output=True, text=True, check=False)
        if done.stdout.strip() == "idle":
            return
        time.sleep(0.5)
    pytest.skip(f"the node does not come up: {done.stdout.strip()} {(folder / 'slurmd.log').read_text()[-300:]}")


def end(pid: int) -> None:
    for number in (15, 9):
        for _ in range(50):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return
            time.sleep(0.1)


def test_the_checks_run_in_a_job_and_leave_their_reports(cluster: dict[str, str], tmp_path: Path, store: Store) -> None:
    choice = working("bubblewrap")
    image = read_layout(real_image(tmp_path / "image"))
    root = unpack_image(image, store, progress=Silent()).path
    out = tmp_path / "out"
    out.mkdir()
    (out / "list.toml").write_text(LIST)
    binds = [
        "--ro-bind",
        str(root),
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "--bind",
        str(out),
        "/run",
    ]
    entry = [f"/{PREFIX}/bin/orbit-entrypoint", f"/{PREFIX}/bin/python3.12", "-P", "-m", "orbit.smoke"]
    words = [*entry, "/run/list.toml", "--json", "/run/r.json", "--junit", "/run/r.xml"]
    host = {
        "PYTHONPATH": "/host/modules",
        "CC": "/opt/cluster/gcc",
        "https_proxy": "http://127.0.0.1:9",
        "TMPDIR": "/scratch",
    }
    env = {**os.environ, **cluster, **host}
    done = subprocess.run(
        ["srun", "--ntasks=1", choice.program, *binds, *words],
        env=env, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (out / "r.json").is_file(), done.stderr
    report = load_json(out / "r.json", SmokeReport)
    results = {item.check: item.result for run in report.runs for item in run.results}
    assert results == dict.fromkeys(("identity", "contract", "import", "handles"), "passed") | {"gpu": "skipped"}, (
        done.stderr
    )
    assert (report.engine, report.profile) == ("in-place", "probe")
    assert "PYTHONPATH=/host/modules is not used" in done.stderr
    assert "CC=/opt/cluster/gcc is not in this image" in done.stderr
    (suite,) = check_junit((out / "r.xml").read_bytes())
    assert suite.get("tests") == "5"
    # two jobs of one user on one node have sockets of their own
    contract = next(item for run in report.runs for item in run.results if item.check == "contract")
    assert "/j" in str(contract.facts["TMPDIR"])
    assert done.returncode != 0  # srun passes the status on: a GPU check was skipped
