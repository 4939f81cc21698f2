"""A job's life without Ray: the same program, signals, statuses, folders; seconds, not minutes."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.launch.node.options import Order
from tests.launch.node.cluster import PYTHON, LocalJob, check_nothing_left, order, stop

SAVES = (
    "import signal, sys, time\n"
    "def save(*_):\n    time.sleep(0.3); print('saved', flush=True); sys.exit(3)\n"
    "signal.signal(signal.SIGTERM, save)\n"
    "print('works', flush=True)\n"
    "time.sleep(100)\n"
)
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('works', flush=True); time.sleep(100)"
)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[LocalJob]:
    """A job of which nothing may be left."""
    made = LocalJob(tmp_path / "j")
    yield made
    made.end()
    check_nothing_left(made.folder)


def alone(*command: str, **more: object) -> Order:
    return order(1, command, seed="", ray=False, **more)(0)


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill -SEGV $$", 139)],
)
def test_the_status_is_the_commands(job: LocalJob, script: str, status: int) -> None:
    job.start(0, alone("sh", "-c", script))
    assert job.statuses() == [status]


def test_the_command_gets_its_words_its_folder_and_its_variables(job: LocalJob) -> None:
    code = "import os, sys; print(sys.argv[1:], os.environ['MINE'], os.environ.get('RAY_ADDRESS'), os.getcwd())"
    job.start(0, alone(PYTHON, "-c", code, "--", "a b", ""), {"MINE": "x", "RAY_ADDRESS": "10.9.8.7:6379"})
    assert job.statuses() == [0]
    assert f"['--', 'a b', ''] x None {os.getcwd()}" in job.log(0)
    assert "RAY_ADDRESS=10.9.8.7:6379 is of another Ray cluster: not used" in job.log(0)


def test_a_command_that_is_not_there_is_told(job: LocalJob) -> None:
    job.start(0, alone("no-such-program"))
    assert job.statuses() == [3]
    assert "no-such-program: program not found" in job.log(0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_command_that_saves_has_the_time_and_keeps_its_status(job: LocalJob, number: int) -> None:
    node = job.start(0, alone(PYTHON, "-c", SAVES))
    job.until(0, "(?m)^works$")
    stop(node, number)
    assert job.statuses() == [3]
    assert "saved" in job.log(0)


def test_a_signal_reaches_the_program_behind_a_shell(job: LocalJob, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(
        f"#!/bin/bash\n'{PYTHON}' -c '{SAVES}'\nexit $?\n".replace("'saved'", '"saved"').replace("'works'", '"works"')
    )
    script.chmod(0o755)
    node = job.start(0, alone(str(script)))
    job.until(0, "(?m)^works$")
    stop(node)
    assert job.statuses()[0] in (3, 143)
    assert "saved" in job.log(0)


def test_a_command_that_does_not_end_is_killed_before_the_scheduler_does_it(job: LocalJob) -> None:
    node = job.start(0, alone(PYTHON, "-c", STUBBORN, grace_seconds=2.0))
    job.until(0, "(?m)^works$")
    stop(node)
    assert job.statuses() == [143]
    assert "did not end within 1.6 s and was killed" in job.log(0)


def test_what_a_command_leaves_behind_ends_with_it(job: LocalJob) -> None:
    job.start(0, alone("sh", "-c", f"setsid {PYTHON} -c 'import time; time.sleep(100)' & sleep 0.3; exit 4"))
    assert job.statuses() == [4]
    check_nothing_left(job.folder)


def test_what_threw_its_environment_away_is_found_by_its_descent(job: LocalJob, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    job.start(0, alone("sh", "-c", f"env -i setsid sh -c 'echo $$ > {pid_file}; exec sleep 100' & sleep 0.5; exit 4"))
    assert job.statuses() == [4]
    assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()


def test_a_killed_node_program_leaves_nothing(job: LocalJob) -> None:
    node = job.start(0, alone("sh", "-c", "setsid sleep 100 & echo works; sleep 100"))
    job.until(0, "(?m)^works$")
    assert list(job.state(0).glob("o-*"))
    node.kill()
    node.wait()
    check_nothing_left(job.folder)


def test_a_signal_while_it_starts_is_not_lost(job: LocalJob) -> None:
    node = job.start(0, alone("sleep", "100"))
    until = time.monotonic() + 30
    while not list(job.state(0).glob("o-*")) and time.monotonic() < until:
        time.sleep(0.01)
    stop(node)
    assert job.statuses() == [143]


def test_an_unfit_node_stops_the_job_with_the_reason(job: LocalJob) -> None:
    job.start(0, alone("true", shm_gib=100_000))
    assert job.statuses() == [1]
    assert re.search(r"the job does not start: .*unfit", job.log(0))


def test_bad_input_ends_at_once(job: LocalJob) -> None:
    child = job.start(0, order(2, ("true",), seed="x")(0), {"ORBIT_OWNER_FILE": "/no/such/file"})
    assert child.wait(30) == 2
    assert "no such file" in job.log(0)
    assert "Traceback" not in job.log(0)


def test_several_nodes_without_a_token_are_refused(job: LocalJob) -> None:
    child = job.start(0, order(2, ("true",), seed="x")(0), {"ORBIT_OWNER_FILE": ""})
    assert child.wait(30) == 4
    assert "fix: submit with" in job.log(0)


def test_missing_nodes_are_named(job: LocalJob) -> None:
    job.start(0, order(4, ("true",), seed="missing", late_minutes=0.05)(0))
    job.start(2, order(4, ("true",), seed="missing", late_minutes=0.05)(2))
    assert job.statuses() == [3, 3]
    assert "2 missing (ranks 1,3)" in job.log(0)
    assert "2 missing (ranks 1,3)" in job.log(2)


def test_a_node_with_another_image_stops_the_job_everywhere(job: LocalJob) -> None:
    digests = {rank: {"ORBIT_IMAGE_DIGEST": "sha256:" + ("b" if rank == 2 else "a") * 64} for rank in range(3)}
    job.start_all(order(3, ("echo", "it ran"), seed="image"), digests)
    assert job.statuses() == [1, 1, 1]
    assert "sha256:bbbb" in job.log(0)
    assert "the command begins" not in job.log(0)


def test_a_first_node_that_is_killed_before_the_start_is_noticed(job: LocalJob) -> None:
    made = order(3, ("true",), seed="killed", lost_seconds=3.0)
    for rank in (0, 1):
        job.start(rank, made(rank))
    job.until(1, "met the first node")
    job.nodes[0].kill()
    assert job.nodes[1].wait(60) == 3
    assert "the first node is lost" in job.log(1)


def test_a_cancelled_start_ends_all_nodes(job: LocalJob) -> None:
    made = order(3, ("true",), seed="cancelled")
    for rank in (0, 1):
        job.start(rank, made(rank))
    job.until(1, "met the first node")
    stop(job.nodes[0])
    assert job.statuses() == [143, 143]
    assert "SIGTERM" in job.log(1)


def test_two_nodes_of_one_rank_are_told(job: LocalJob, tmp_path: Path) -> None:
    made = order(3, ("true",), seed="twice")
    job.start(0, made(0))
    job.start(1, made(1))
    job.until(1, "met the first node")
    again = LocalJob(tmp_path / "j" / "again")
    again.owner.write_text(job.owner.read_text())
    child = again.start(1, made(1))
    assert child.wait(60) == 3
    assert "two nodes were given one --rank" in again.log(1)
    stop(job.nodes[0])
    assert job.statuses() == [143, 143]
