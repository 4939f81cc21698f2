"""A Ray cluster that somebody else starts: the command begins when all of it is there, and not before."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.core.paths import checkout_root
from orbit.errors import ExitCode, MissingError
from orbit.launch.node.options import Order
from orbit.launch.ray.join import Found, become, described, is_fit
from orbit.launch.ray.spec import Seen


def node(name: str = "a", *, alive: bool = True, why: str = "", **resources: float) -> Seen:
    return Seen(node_id=name, name=name, ip="10.0.0.1", alive=alive, resources=resources, why=why)


def test_who_is_fit() -> None:
    order = Order(nodes=1, gpus=8, cpus=4, command=("x",))
    assert is_fit(node(GPU=8, CPU=4), order)
    assert not is_fit(node(GPU=7, CPU=4), order)
    assert not is_fit(node(CPU=4), order)
    assert not is_fit(node(GPU=8, CPU=4, alive=False), order)


def test_each_node_is_described() -> None:
    order = Order(nodes=3, gpus=8, command=("x",))
    found = Found(nodes=(node("a", GPU=8), node("b", GPU=4), node("c", alive=False, why="OOM", GPU=8)))
    assert described(found, order) == "a there; b has 4 GPU, 0 CPU; c dead (OOM)"
    assert described(Found(error="refused"), order) == "refused"


def test_a_command_that_is_not_there_is_said() -> None:
    with pytest.raises(MissingError, match="no-such-program"):
        become(("no-such-program",), {"PATH": "/nowhere"})


def test_with_a_real_head(tmp_path: Path) -> None:
    """A cluster of one node, and in it what a RayJob's entrypoint does: all nodes there, too few, another token."""
    pytest.importorskip("ray")
    joins = f"{sys.executable} -m orbit launch node --join $RAY_ADDRESS"
    script = tmp_path / "script.sh"
    script.write_text(
        f"""
        {joins} --nodes 1 --cpus 1 --late-minutes 2 -- sh -c 'echo all: $ORBIT_NODES $RAY_ADDRESS; exit 7'
        echo status $?
        {joins} --nodes 2 --late-minutes 0.01 -- echo ran; echo status $?
        {joins} --nodes 1 --gpus 8 --late-minutes 0.01 -- echo ran; echo status $?
        RAY_AUTH_TOKEN={"f" * 64} {joins} --nodes 1 --late-minutes 0.01 -- echo ran; echo status $?
        """
    )
    argv = [sys.executable, "-m", "orbit", "launch", "node", "--cpus", "1", "--nofile", "1024", "--", "sh", str(script)]
    plain = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    env = {**plain, "ORBIT_STATE": str(tmp_path / "s"), "PYTHONPATH": str(checkout_root())}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert re.search(r"all: 1 \S+:\d+\nstatus 7\n", done.stdout), done.stdout + done.stderr
    assert done.stdout.count(f"status {int(ExitCode.MISSING)}") == 3, done.stdout + done.stderr
    assert "ran" not in done.stdout.split()
    said = done.stdout + done.stderr
    assert "1 of 2 nodes are in the Ray cluster" in said
    assert "has 0 GPU" in said
    assert "0 of 1 nodes are in the Ray cluster" in said
