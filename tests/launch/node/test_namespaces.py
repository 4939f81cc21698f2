"""Nodes with networks of their own on this machine: addresses, a private /tmp, a cable that is pulled."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launch.node.cluster import PYTHON, LocalJob, check_nothing_left, order
from tests.launch.node.test_cluster import HEAD

pytest.importorskip("ray")
pytestmark = pytest.mark.integration

NODES = 3
PRIVATE_TMP = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /tmp && exec "$@"', "sh")
PROGRAM = HEAD + (
    "ray.init()\n"
    "@ray.remote(num_cpus=1)\n"
    "def here(): return ray.util.get_node_ip_address(), os.listdir('/tmp')\n"
    "found = ray.get([here.options(resources={f'orbit-node-{rank}': 1}).remote() for rank in range(3)])\n"
    "print('addresses', *(address for address, _ in found), flush=True)\n"
    "print('private', [names for _, names in found], flush=True)\n"
    "time.sleep(300)\n"
)


class Lan:
    """A namespace with a bridge, away from the firewall of this machine, and one with an address for each node."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(3)
        self.switch = f"orbit-{self.id}-switch"
        self.net = f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(250)}"

    def name(self, rank: int) -> str:
        return f"orbit-{self.id}-{rank}"

    def address(self, rank: int) -> str:
        return f"{self.net}.{rank + 1}"

    def up(self) -> None:
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        for rank in range(NODES):
            name = self.name(rank)
            ip("netns", "add", name)
            ip("-n", self.switch, "link", "add", f"port{rank}", "type", "veth", "peer", "name", "lan", "netns", name)
            ip("-n", self.switch, "link", "set", f"port{rank}", "master", "bridge", "up")
            ip("-n", name, "addr", "add", f"{self.address(rank)}/24", "dev", "lan")
            ip("-n", name, "link", "set", "lan", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def pull(self, rank: int) -> None:
        ip("-n", self.switch, "link", "set", f"port{rank}", "down")

    def down(self) -> None:
        for name in (self.switch, *(self.name(rank) for rank in range(NODES))):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def lan() -> Iterator[Lan]:
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "unshare"))):
        pytest.skip("network namespaces need root, ip and unshare")
    made = Lan()
    try:
        made.up()
    except subprocess.CalledProcessError as error:
        made.down()
        pytest.skip(f"no network namespaces here: {error.stderr.decode(errors='replace').strip()}")
    yield made
    made.down()


@pytest.fixture
def job(lan: Lan) -> Iterator[LocalJob]:
    folder = Path(tempfile.mkdtemp(prefix="orbit-", dir="/var/tmp"))
    made = LocalJob(folder, wrap=lambda rank: ("ip", "netns", "exec", lan.name(rank), *PRIVATE_TMP))
    yield made
    made.end()
    check_nothing_left(folder)
    shutil.rmtree(folder)


def test_nodes_of_a_network_with_private_folders_and_one_that_is_cut_off(lan: Lan, job: LocalJob) -> None:
    if sys.prefix.startswith("/tmp/"):
        pytest.skip("the interpreter lies in /tmp, which each node of this test has for itself")
    made = order(NODES, (PYTHON, "-c", PROGRAM), seed=lan.id, meet=f"tcp:{lan.address(0)}", lost_seconds=6.0)
    job.start_all(made, {rank: {"ORBIT_STATE": ""} for rank in range(NODES)})
    addresses = job.until(0, "(?m)^addresses (.*)$")[1].split()
    assert addresses == [lan.address(rank) for rank in range(NODES)]
    private = job.until(0, "(?m)^private (.*)$")[1]
    assert "pytest" not in private
    lan.pull(2)
    assert job.statuses() == [3, 3, 3], job.logs()
    assert "node 2 (" in job.log(0)
    assert "is lost" in job.log(0)
    assert "the first node is lost" in job.log(2) or "Ray ended on this node" in job.log(2)
    assert "is lost" in job.log(1)
