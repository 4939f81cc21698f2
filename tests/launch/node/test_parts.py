"""Small parts of the node program: command, logs, here, first, other, program."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orbit.errors import ExitCode, InputError, RefusedError
from orbit.launch.node import logs
from orbit.launch.node.command import cluster_variables, command_time, plain_environment, proxy_free
from orbit.launch.node.first import _command_outcome
from orbit.launch.node.here import Signals, Told, ended, failing, node_name
from orbit.launch.node.logs import keep_logs, log_place
from orbit.launch.node.options import Order
from orbit.launch.node.other import places_of
from orbit.launch.node.program import check_order
from orbit.launch.ray.cluster import RayFailed
from orbit.launch.ray.spec import Seen


def test_the_command_has_most_of_the_grace() -> None:
    assert [command_time(grace) for grace in (0, 5, 60, 600)] == [0, 4, 50, 590]


def test_nodes_are_never_reached_through_a_proxy() -> None:
    assert proxy_free({"no_proxy": "a"}, ["h"]) == {}
    made = proxy_free({"http_proxy": "http://p:1", "NO_PROXY": "a,b"}, ["b", "10.0.0.1"])
    assert made == {"no_proxy": "a,b,10.0.0.1", "NO_PROXY": "a,b,10.0.0.1"}


def test_the_command_learns_what_its_cluster_has() -> None:
    nodes = [
        Seen(node_id=str(n), name=node_name(n), ip="10.0.0.1", alive=True, resources={"CPU": 8.0, "GPU": 4.0})
        for n in range(3)
    ]
    made = cluster_variables("h:1", nodes, Path("/x"))
    assert (made["RAY_ADDRESS"], made["ORBIT_NODES"], made["ORBIT_CPUS"], made["ORBIT_GPUS"]) == (
        "h:1",
        "3",
        "24",
        "12",
    )


def test_a_command_without_ray_gets_the_jobs_own_environment() -> None:
    env = {"A": "1", "RAY_ADDRESS": "h:1", "PYTHONPATH": "/x"}
    assert plain_environment(env, "M=2") == {"A": "1", "PYTHONPATH": "/x", "M": "2"}


@pytest.mark.parametrize(("status", "said"), [(0, "well"), (7, "status 7"), (137, "SIGKILL"), (255, "status 255")])
def test_how_a_command_ended(status: int, said: str) -> None:
    outcome = _command_outcome(status)
    assert said in outcome.reason
    assert (outcome.status, outcome.failed) == (status, status != 0)


def test_a_status_is_that_of_shells() -> None:
    child = subprocess.Popen(["sleep", "60"])
    child.kill()
    assert asyncio.run(ended(child)) == 137


def test_a_signal_that_came_before_anybody_listened_is_told() -> None:
    signals = Signals()
    heard: list[Told] = []

    async def work() -> None:
        signals.listen(heard.append)
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.05)

    with signals.caught():
        os.kill(os.getpid(), signal.SIGTERM)
        while signals.first is None:
            time.sleep(0.01)
        asyncio.run(work())
    assert heard == [Told(signal.SIGTERM)]
    assert heard[0].status == 143
    assert "SIGTERM" in heard[0].reason
    assert not signals.again


def test_errors_of_this_node_are_told_with_their_fix() -> None:
    problem = failing(RefusedError("no room", fix="make some"))
    assert (problem.status, problem.reason) == (ExitCode.REFUSED, "no room (fix: make some)")
    assert failing(RayFailed("Ray ended", "its words")).log == "its words"


def test_the_end_of_each_log_is_kept_the_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "session_1"
    (source / "logs").mkdir(parents=True)
    for number, name in enumerate(("old", "new", "empty")):
        path = source / "logs" / name
        path.write_bytes(b"" if name == "empty" else name.encode() * 1000)
        os.utime(path, (number, number))
    (source / "link").symlink_to("/etc/passwd")
    single = tmp_path / "starter.log"
    single.write_text("starter")
    monkeypatch.setattr(logs, "FILE_BYTES", 10)
    monkeypatch.setattr(logs, "TOTAL_BYTES", 17)
    assert keep_logs([source, single, tmp_path / "none"], tmp_path / "kept") == 2
    assert (tmp_path / "kept" / "starter.log").read_text() == "starter"
    assert (tmp_path / "kept" / "logs" / "new").read_text() == "wnewnewnew"
    assert not (tmp_path / "kept" / "logs" / "old").exists()


def test_where_logs_go() -> None:
    assert log_place({}, "", job="a", attempt="b") is None
    assert log_place({"ORBIT_STATE": "/s"}, "", job="../a", attempt="0123456789") == Path("/s/orbit-logs/..-a-01234567")
    assert log_place({"ORBIT_STATE": "/s"}, "/shared", job="a", attempt="b") == Path("/shared/orbit-logs/a-b")


def test_a_dry_run_says_what_this_node_would_do() -> None:
    order = Order(nodes=2, rank="env:R", meet="tcp:env:H", ports=(21000,), command=("x", "y"))
    said = check_order(order, {"R": "1", "H": "head"})
    assert said["node"] == "1 of 2"
    assert said["command"] == "on node 0"
    assert "head" in said["meets"]
    assert check_order(order, {"R": "0"})["command"] == "x y"
    with pytest.raises(InputError, match="--rank"):
        check_order(order, {})


def test_where_the_first_node_is_looked_for() -> None:
    class Of:
        order = Order(nodes=2, meet="tcp:h", ports=(1024, 2048), command=("x",))
        head = "h"
        token = bytes(32)

    assert places_of(Of())() == [("h", 1024), ("h", 2048)]  # type: ignore[arg-type]
    Of.order = Order(nodes=2, meet="dir:/no/such/folder", command=("x",))
    assert places_of(Of())() == []  # type: ignore[arg-type]


def test_dry_run_of_the_command_line_writes_json_and_starts_nothing() -> None:
    argv = [sys.executable, "-m", "orbit", "launch", "node", "--dry-run", "--json", "--", "train", "--", "x"]
    done = subprocess.run(argv, capture_output=True, check=True)
    assert json.loads(done.stdout)["command"] == "train -- x"
