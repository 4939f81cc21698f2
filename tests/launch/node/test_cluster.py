"""Real Ray under the node program: several nodes on this machine that come, fail and go; nothing stays."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launch.node.cluster import (
    PYTHON,
    LocalJob,
    check_nothing_left,
    leftovers,
    order,
    squatting,
    stop,
)

pytest.importorskip("ray")
pytestmark = pytest.mark.integration

HEAD = "import json, os, signal, sys, time\nimport ray\n"
PLACES = HEAD + (
    "ray.init(log_to_driver=True)\n"
    "@ray.remote(num_cpus=1)\n"
    "def here():\n"
    "    print('a worker speaks', flush=True)\n"
    "    time.sleep(0.5)\n"
    "    return ray.get_runtime_context().get_node_id()\n"
    "ids = [here.options(resources={f'orbit-node-{rank}': 1}).remote() for rank in range(int(sys.argv[1]))]\n"
    "print('nodes', len(set(ray.get(ids))), len(ray.nodes()), flush=True)\n"
    "print('file', json.dumps(json.load(open(os.environ['ORBIT_CLUSTER_FILE']))), flush=True)\n"
    "sys.exit(int(sys.argv[2]))\n"
)
WAITS = "import sys, time; sys.stdout.write('works\\n'); sys.stdout.flush(); time.sleep(300)"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[LocalJob]:
    """A job of which nothing may be left."""
    made = LocalJob(tmp_path / "j")
    yield made
    made.end()
    check_nothing_left(made.folder)


def pids_of(job: LocalJob, rank: int, word: str) -> list[int]:
    """Processes of one node whose command line has ``word``."""
    mine = leftovers(job.state(rank))
    return [pid for pid, line in mine.items() if word in line]


def test_all_nodes_are_up_and_the_status_is_the_commands_on_every_node(job: LocalJob) -> None:
    stale = {"RAY_ADDRESS": "127.0.0.1:6379", "RAY_AUTH_TOKEN": "of somebody else"}
    job.env |= stale
    with squatting(6379, 8265, 10001, 52365):
        job.start_all(order(3, (PYTHON, "-c", PLACES, "3", "7"), seed="all up"))
        assert job.statuses() == [7, 7, 7], job.logs()
    said = job.log(0)
    assert "nodes 3 3" in said
    assert "a worker speaks" in said
    assert "of another Ray cluster: not used" in said
    assert "of somebody else" not in said
    found = json.loads(re.findall(r"(?m)^file (.*)$", said)[0])
    assert [node["rank"] for node in found["nodes"]] == [0, 1, 2]
    assert [node["cpus"] for node in found["nodes"]] == [1, 1, 1]
    kept = sorted(path.name for path in job.folder.glob("s*/orbit-logs/*/node-*"))
    assert kept == ["node-0", "node-1", "node-2"]


def test_two_jobs_at_once_see_only_their_own_nodes(tmp_path: Path) -> None:
    """Also of one name, at the same ports, without a folder they share: the token is what tells them apart."""
    jobs = [LocalJob(tmp_path / name) for name in ("one", "two")]
    try:
        for each in jobs:
            each.start_all(order(2, (PYTHON, "-c", PLACES, "2", "0"), seed="same ports"))
        for each in jobs:
            assert each.statuses() == [0, 0], each.logs()
            assert "nodes 2 2" in each.log(0)
    finally:
        for each in jobs:
            each.end()
    for each in jobs:
        check_nothing_left(each.folder)


def test_a_late_node_is_waited_for_and_nodes_meet_in_a_folder(job: LocalJob, tmp_path: Path) -> None:
    folder = tmp_path / "meet"
    folder.mkdir()
    made = order(2, (PYTHON, "-c", PLACES, "2", "0"), seed="folder", meet=f"dir:{folder}", ports=())
    job.start(0, made(0))
    job.until(0, "nodes meet at port")
    assert len(list(folder.iterdir())) == 1
    time.sleep(2)
    job.start(1, made(1))
    assert job.statuses() == [0, 0], job.logs()
    assert "nodes 2 2" in job.log(0)
    assert list(folder.iterdir()) == []


def test_a_raylet_that_is_killed_ends_the_job_with_the_reason(job: LocalJob) -> None:
    job.start_all(order(2, (PYTHON, "-c", WAITS), seed="raylet"))
    job.until(0, "(?m)^works$")
    raylet = pids_of(job, 1, "/raylet/raylet ")
    assert len(raylet) == 1
    os.kill(raylet[0], signal.SIGKILL)
    assert job.statuses() == [3, 3]
    assert "node 1 (" in job.log(0)
    assert "Ray ended on this node" in job.log(1)


def test_a_node_program_that_is_killed_leaves_nothing_and_is_noticed(job: LocalJob) -> None:
    job.start_all(order(2, (PYTHON, "-c", WAITS), seed="program", lost_seconds=4.0))
    job.until(0, "(?m)^works$")
    job.nodes[1].kill()
    job.nodes[1].wait()
    check_nothing_left(job.state(1))
    assert job.nodes[0].wait(60) == 3
    assert re.search(r"node 1 \(.*\) is lost", job.log(0))


def test_the_first_node_is_killed_and_the_others_notice(job: LocalJob) -> None:
    job.start_all(order(2, (PYTHON, "-c", WAITS), seed="head", lost_seconds=4.0))
    job.until(0, "(?m)^works$")
    job.nodes[0].kill()
    job.nodes[0].wait()
    assert job.nodes[1].wait(60) == 3
    assert re.search("the first node is lost|Ray ended on this node", job.log(1))


def test_a_job_goes_on_without_a_node_where_the_recipe_allows(job: LocalJob) -> None:
    go = job.folder / "go"
    program = f"import time, os; print('works', flush=True)\nwhile not os.path.exists({str(go)!r}): time.sleep(0.1)"
    made = order(3, (PYTHON, "-c", program), seed="spare", unfit="leave-out", least=2, lost_seconds=4.0)
    job.start_all(made)
    job.until(0, "(?m)^works$")
    stop(job.nodes[2])
    job.until(0, "goes on without node 2")
    assert job.nodes[2].wait(60) == 0
    go.touch()
    assert job.statuses() == [0, 0, 0], job.logs()


@pytest.mark.parametrize("moment", ["met the first node", "starting"])
def test_a_cancelled_job_leaves_nothing_while_ray_starts(job: LocalJob, moment: str) -> None:
    job.start_all(order(2, (PYTHON, "-c", WAITS), seed=moment))
    if moment == "starting":
        deadline = time.monotonic() + 60
        while not pids_of(job, 0, "gcs_server") and time.monotonic() < deadline:
            time.sleep(0.02)
    else:
        job.until(1, moment)
    for node in job.nodes.values():
        stop(node)
    assert job.statuses() == [143, 143], job.logs()


def test_a_signal_in_the_middle_reaches_the_command_and_ray_lives_until_it_has_saved(job: LocalJob) -> None:
    program = HEAD + (
        "ray.init()\n"
        "@ray.remote\n"
        "def save(): return 'saved by a worker'\n"
        "def stop(*_): print(ray.get(save.options(resources={'orbit-node-1': 1}).remote()), flush=True); os._exit(5)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "print('works', flush=True)\n"
        "time.sleep(300)\n"
    )
    job.start_all(order(2, (PYTHON, "-c", program), seed="middle", grace_seconds=40.0))
    job.until(0, "(?m)^works$")
    for node in job.nodes.values():  # a scheduler tells all nodes at once
        stop(node)
    assert job.statuses() == [5, 5], job.logs()
    assert "saved by a worker" in job.log(0)


def test_a_stranger_to_ray_is_turned_away(job: LocalJob, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0" * 64)
    stranger = (
        "import os, subprocess, sys\n"
        "code = 'from ray._raylet import GcsClient; import os; '\n"
        "code += 'print(GcsClient(address=os.environ[\"RAY_ADDRESS\"]).get_all_node_info(timeout=5))'\n"
        f"env = os.environ | {{'RAY_AUTH_TOKEN_PATH': {str(token)!r}}}\n"
        "done = subprocess.run([sys.executable, '-c', code], env=env, capture_output=True, timeout=100)\n"
        "print('stranger', done.returncode, done.stderr[-300:], flush=True)\n"
        "done = subprocess.run([sys.executable, '-c', code], capture_output=True, timeout=100)\n"
        "print('friend', done.returncode, flush=True)\n"
    )
    job.start(0, order(1, (PYTHON, "-c", stranger), seed="")(0))
    assert job.statuses() == [0], job.logs()
    assert re.search(r"stranger [1-9]", job.log(0)), job.log(0)
    assert "friend 0" in job.log(0)
