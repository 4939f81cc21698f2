"""The preflight as the doctor asks it: on this machine, and with GPUs on a made-up one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.doctor.look import node
from orbit.launch.preflight.model import Demand, NodeReport, State


def test_the_checks_of_a_node_with_faults() -> None:
    env = {"ORBIT_STATE": "/tmp/" + "x" * 60, "HOME": "/", "http_proxy": "http://proxy:3128"}
    checks = {check.name: check for check in node.node_checks(Path("/"), env, gpus=0, prefix=None)}
    assert {"open-files", "shared-memory", "user", "socket-path", "file-locks", "proxy", "rdma"} <= checks.keys()
    assert checks["socket-path"].state is State.FAILED
    assert checks["proxy"].state is not State.PASSED
    assert checks["driver"].state is State.SKIPPED


def test_the_gpus_that_are_here_are_demanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []

    def check_node(demand: Demand, *, rank: int, host: str, **more: object) -> NodeReport:
        asked.extend([demand, more["prefix"]])
        return NodeReport(rank=rank, host=host, started="", seconds=0.0, demand=demand, checks=())

    monkeypatch.setattr(node, "check_node", check_node)
    assert node.node_checks(tmp_path, {}, gpus=4, prefix=tmp_path) == ()
    assert asked == [Demand(gpus=4), tmp_path]


def test_rdma_of_the_host_is_wanted_here(tmp_path: Path) -> None:
    (tmp_path / "sys/class/infiniband/mlx5_0/ports/1").mkdir(parents=True)
    checks = {check.name: check for check in node.node_checks(tmp_path, {}, gpus=0, prefix=None)}
    assert checks["rdma"].state is State.WARNING
