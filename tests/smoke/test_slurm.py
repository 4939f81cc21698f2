"""The checks inside a Slurm job: a cluster of one node, started here where Slurm is installed and root may start it.

What a job brings along from its submit host (PYTHONPATH, a compiler, a proxy) comes into the container too, as it does
with Apptainer: bubblewrap keeps the environment unless told otherwise.
"""

from __future__ import annotations

import os
import subprocess
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
from tests.slurm import one_node
from tests.writers.junit import check_junit

pytestmark = pytest.mark.integration
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


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """Variables with which srun reaches a Slurm of one node."""
    with one_node() as variables:
        yield variables


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
