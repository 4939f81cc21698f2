"""Slurm for real: what is rendered is accepted, runs, is cancelled, preempted, and leaves nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbit.cli import main
from orbit.errors import InputError, MissingError
from orbit.launch.render import default_form
from orbit.launch.submit.model import JobRef, Phase
from orbit.launch.submit.slurm import Slurm, _code, _from_controller
from tests.launch.render.scripts import steady
from tests.launch.render.test_slurm import IMAGES, made
from tests.slurm import one_node, two_nodes
from tests.source import ROOT

NODE = """
import msgspec, sys
import orbit.launch.node.here as here
real = here.check_node
# a machine of tests may allow fewer open files than a cluster's node; everything else is demanded
here.check_node = lambda demand, **more: real(msgspec.structs.replace(demand, nofile=1024), **more)
from orbit.cli import main
raise SystemExit(main(sys.argv[2:]))
"""
ODD = 'it\'s $HOME,\n "x" \\ `id` \u00e4\u20ac'
SAVES = "trap 'echo saved >{folder}/saved; exit 9' TERM; echo up >{folder}/up; while :; do sleep 0.2; done"
DEAD = """
ClusterName=dead
SlurmctldHost=localhost
SlurmctldPort={port}
AuthType=auth/none
NodeName=localhost State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES
MessageTimeout=2
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """A Slurm of one node."""
    with one_node() as variables:
        yield variables


class Place:
    """A folder with recipe, site and an environment in it, on a real cluster; the store and the output are there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        prefix = folder / "env/bin"
        prefix.mkdir(parents=True)
        (folder / "node.py").write_text(NODE)
        entry = f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "{folder}/node.py" "$@"\n'
        (prefix / "orbit-entrypoint").write_text(entry)
        (prefix / "orbit-entrypoint").chmod(0o755)

    def write(self, command: list[str], **more: Any) -> list[str]:
        """Recipe and site for ``command``; the words that name them."""
        job: dict[str, Any] = {
            "name": "demo", "image": "sha256:" + "ab" * 32, "command": command, "cpus_per_node": 1, "memory_gib": 1,
            "shm_gib": 1, "scratch_gib": 1, "minutes": 5, "ray": False, "grace_seconds": 10,
            "environment": {"MARK": self.mark, "ODD": ODD},
        } | more  # fmt: skip
        recipe = "schema = 1\n[launch]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in job.items())
        (self.folder / "recipe.toml").write_text(recipe, encoding="utf-8")
        image = {"runtime": "none", "form": "prefix", "path": str(self.folder / "env")}
        site = {
            "schema": 1,
            "name": "one",
            "scheduler": "slurm",
            "nodes": {"gpus": 2, "gpu": "x", "cpus": 2, "memory_gib": 3, "most": 2},
            "image": image,
        }
        (self.folder / "site.toml").write_text("".join(f"{key} = {toml(value)}\n" for key, value in site.items()))
        return [str(self.folder / "recipe.toml"), "--site", str(self.folder / "site.toml")]

    def submit(self, command: list[str], **more: Any) -> None:
        """``orbit launch submit``."""
        assert main(["launch", "submit", *self.write(command, **more)]) == 0

    def processes(self) -> list[str]:
        """Command lines of what still runs with the job's mark in its environment."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if self.mark.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


def toml(value: Any) -> str:
    """A value as TOML; JSON's strings are TOML's."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def wait_for(what: Callable[[], object]) -> None:
    """Until it is so, a minute at most."""
    for _ in range(300):
        if what():
            return
        time.sleep(0.2)
    raise AssertionError("it did not come to it within a minute")


@pytest.fixture
def place(cluster: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where jobs are submitted from."""
    monkeypatch.setenv("SLURM_CONF", cluster["SLURM_CONF"])
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


def status() -> dict[str, Any]:
    """``orbit launch status --json demo``, without its exit status."""
    from orbit.cli.launch.status import ask
    from orbit.launch.submit.model import load_ref

    found = ask(load_ref("demo"))
    return {"phase": found.phase, "state": found.state, "exit_code": found.exit_code, "message": found.message}


@pytest.mark.integration
@pytest.mark.parametrize("image", sorted(IMAGES))
def test_slurm_accepts_every_form(image: str, place: Place) -> None:
    small: dict[str, Any] = {"cpus_per_node": 1, "memory_gib": 1, "shm_gib": 1, "gpus_per_node": 2}
    for nodes, accepted in ((1, True), (2, False)):
        plan = made(image, nodes=nodes, secrets=["HF_TOKEN"], **small)
        (place.folder / "job").write_text(steady(plan, default_form(plan))[0].text)
        done = subprocess.run(["sbatch", "--test-only", "job"], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is accepted, done.stderr
        assert ("to start at" if accepted else "configuration is not available") in done.stderr


@pytest.mark.integration
def test_a_job_runs_with_its_variables_and_secrets_and_leaves_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KEY", "s3 cr$t\nx")
    monkeypatch.setenv("PYTHONPATH", "/of/the/login/node")
    place.submit(["/bin/sh", "-c", f"env -0 >{place.folder}/env.0; echo done"], secrets=["KEY"], gpus_per_node=0)
    assert main(["launch", "status", "--wait", "demo"]) == 0
    found = dict(item.split("=", 1) for item in (place.folder / "env.0").read_text().split("\0") if item)
    assert (found["ODD"], found["KEY"]) == (ODD, "s3 cr$t\nx")
    assert "/of/the/login/node" not in found.get("PYTHONPATH", "")
    capfd.readouterr()
    assert main(["launch", "logs", "demo"]) == 0
    log = capfd.readouterr().out
    assert "1 node, 1 fit" in log
    assert "done\n" in log
    assert place.processes() == []
    kept = "".join(path.read_text() for path in (place.folder / "store/launch/demo").iterdir())
    assert "s3 cr$t" not in kept + log


@pytest.mark.integration
def test_the_exit_status_of_the_command_is_the_jobs(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.submit(["/bin/sh", "-c", "exit 7"])
    assert main(["launch", "status", "--wait", "demo"]) == 1
    assert status() == {"phase": Phase.FAILED, "state": "FAILED", "exit_code": 7, "message": ""}
    assert "failed (slurm" in capsys.readouterr().out


@pytest.mark.integration
def test_a_cancelled_job_saves_its_state_and_leaves_nothing(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["/bin/sh", "-c", SAVES.format(folder=place.folder)]
    place.submit(command)
    wait_for((place.folder / "up").exists)
    assert main(["launch", "submit", *place.write(command)]) == 4
    assert "a job of this name is running" in capsys.readouterr().err
    assert main(["launch", "cancel", "--dry-run", "demo"]) == 0
    assert status()["phase"] is Phase.RUNNING
    assert main(["launch", "cancel", "demo"]) == 0
    assert "SIGTERM was sent, and it has ended" in capsys.readouterr().out
    assert (place.folder / "saved").exists()
    assert status()["phase"] is Phase.CANCELLED
    assert place.processes() == []
    assert main(["launch", "cancel", "demo"]) == 0
    assert "it had ended" in capsys.readouterr().out


@pytest.mark.integration
def test_a_plain_scancel_reaches_the_command_too(place: Place) -> None:
    place.submit(["/bin/sh", "-c", SAVES.format(folder=place.folder)])
    wait_for((place.folder / "up").exists)
    number = json.loads((place.folder / "store/launch/demo/job.json").read_text())["id"]
    subprocess.run(["scancel", number], check=True)
    wait_for(lambda: status()["phase"] is Phase.CANCELLED)
    wait_for(lambda: not place.processes())
    assert (place.folder / "saved").exists()


@pytest.mark.integration
def test_a_preempted_job_saves_its_state_and_says_why_it_ended(place: Place) -> None:
    place.submit(["/bin/sh", "-c", SAVES.format(folder=place.folder)])
    wait_for((place.folder / "up").exists)
    words = ["sbatch", "--partition=first", "--exclusive", "--output=/dev/null", "--wrap=true"]
    subprocess.run(words, check=True, capture_output=True)
    wait_for(lambda: Phase(status()["phase"]).ended)
    wait_for(lambda: not place.processes())
    assert (place.folder / "saved").exists()
    assert status()["state"] in ("PREEMPTED", "FAILED")


@pytest.mark.integration
def test_a_job_cancelled_while_it_starts_leaves_nothing(place: Place) -> None:
    place.submit(["/bin/sh", "-c", SAVES.format(folder=place.folder)], grace_seconds=5)
    wait_for(lambda: status()["phase"] is Phase.RUNNING)
    assert main(["launch", "cancel", "demo"]) == 0
    wait_for(lambda: status()["phase"] is Phase.CANCELLED)
    wait_for(lambda: not place.processes())


@pytest.mark.integration
def test_a_job_that_waits_is_taken_back(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sbatch", "--parsable", "--exclusive", "--output=/dev/null", "--wrap=sleep 60"]
    first = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    try:
        place.submit(["/bin/true"])
        wait_for(lambda: status()["message"])
        assert status()["phase"] is Phase.WAITING
        assert main(["launch", "logs", "demo"]) == 3
        assert "no output yet; the job is pending" in capsys.readouterr().err
        assert main(["launch", "cancel", "demo"]) == 0
        assert "cancelled before it started" in capsys.readouterr().out
        assert status()["phase"] is Phase.CANCELLED
    finally:
        subprocess.run(["scancel", first], check=True)


@pytest.mark.integration
def test_two_nodes_meet_have_ray_and_end_with_the_commands_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with two_nodes() as variables:
        monkeypatch.setenv("SLURM_CONF", variables["SLURM_CONF"])
        monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "store"))
        monkeypatch.chdir(tmp_path)
        place = Place(tmp_path)
        place.submit(["/bin/sh", "-c", "echo address $RAY_ADDRESS; exit 5"], nodes=2, ray=True, memory_gib=3)
        wait_for(lambda: Phase(status()["phase"]).ended)
        assert (status()["phase"], status()["exit_code"]) == (Phase.FAILED, 5)
        capfd.readouterr()
        assert main(["launch", "logs", "demo"]) == 0
        log = capfd.readouterr().out
        assert "Ray is up on 2 node(s)" in log
        assert re.search(r"^0: address [0-9.]+:[0-9]+$", log, re.MULTILINE)
        wait_for(lambda: not place.processes())
        assert not list(tmp_path.glob(".orbit-demo-*")), "the owner token outlived the job"


@pytest.mark.integration
def test_what_slurm_refuses_is_told_in_its_words(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    words = place.write(["/bin/true"])
    site = place.folder / "site.toml"
    site.write_text(site.read_text() + '[slurm]\npartition = "nowhere"\n')
    assert main(["launch", "submit", *words]) == 2
    assert "invalid partition specified: nowhere" in capsys.readouterr().err
    assert not (place.folder / "store/launch/demo/job.json").exists()


def test_a_controller_that_is_not_there_is_exit_status_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from orbit.core.tools import find
    from tests.slurm import free_port

    try:
        find("sbatch")
    except MissingError:
        pytest.skip("sbatch is not installed")
    (tmp_path / "slurm.conf").write_text(DEAD.format(port=free_port()))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    assert main(["launch", "submit", *Place(tmp_path).write(["/bin/true"])]) == 3
    said = capsys.readouterr().err
    assert "Slurm's controller does not answer" in said
    assert str(tmp_path / "slurm.conf") in said


def test_without_slurm_its_program_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "store"))
    assert main(["launch", "submit", *Place(tmp_path).write(["/bin/true"])]) == 3
    assert "sbatch: program not found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "phase", "code", "message"),
    [
        ("JobId=1 JobState=PENDING Reason=Resources ExitCode=0:0 NodeList=(null)", Phase.WAITING, None, "Resources"),
        ("JobId=1 JobState=PENDING Reason=None ExitCode=0:0 NodeList=", Phase.WAITING, None, ""),
        ("JobId=1 JobState=RUNNING Reason=None ExitCode=0:0 NodeList=n[1-2]", Phase.RUNNING, None, ""),
        ("JobId=1 JobState=COMPLETED Reason=None ExitCode=0:0 NodeList=n1", Phase.SUCCEEDED, 0, ""),
        ("JobId=1 JobState=OUT_OF_MEMORY Reason=x ExitCode=0:125 NodeList=n1", Phase.FAILED, 253, "launch.memory_gib"),
        ("JobId=1 JobState=TIMEOUT Reason=TimeLimit ExitCode=0:15 NodeList=n1", Phase.FAILED, 143, "launch.minutes"),
        ("JobId=1 JobState=NEW_WORD Reason=None ExitCode=0:0 NodeList=n1", Phase.RUNNING, None, ""),
    ],
)
def test_the_controllers_words_are_read(said: str, phase: Phase, code: int | None, message: str) -> None:
    found = _from_controller(said)
    assert (found.phase, found.exit_code) == (phase, code)
    assert message in found.message
    assert bool(found.message) is bool(message)


def test_codes_are_status_or_signal() -> None:
    assert [_code(text) for text in ("7:0", "0:9", "0:0", "", "x:1")] == [7, 137, 0, None, None]


def fakes(folder: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> JobRef:
    """Programs of Slurm that answer as given, and a reference."""
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.defpath}")
    return JobRef(
        name="demo", scheduler="slurm", form="none", id="7", identity="", site="s", nodes=1, submitted="",
        grace_seconds=5, details={"output": str(folder / "out.log")},
    )  # fmt: skip


def test_a_job_the_controller_forgot_is_asked_of_the_accounting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgot = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
    ref = fakes(tmp_path, monkeypatch, scontrol=forgot, sacct="echo 'CANCELLED by 1000|0:15|n1'")
    found = Slurm().status(ref)
    assert (found.phase, found.state, found.exit_code, found.nodes) == (Phase.CANCELLED, "CANCELLED", 143, ("n1",))
    fakes(tmp_path, monkeypatch, sacct="echo 'Slurm accounting storage is disabled' >&2; exit 1")
    found = Slurm().status(ref)
    assert found.phase is Phase.GONE
    assert str(tmp_path / "out.log") in found.message


def test_a_followed_log_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbit.launch.submit.slurm.PAUSE_S", 0.01)
    log, calls = tmp_path / "out.log", tmp_path / "calls"
    body = (
        f"echo x >>{calls}; n=$(wc -l <{calls}); echo line $n >>{log}; "
        "if [ $n -lt 4 ]; then echo 'JobState=RUNNING Reason=None'; else echo 'JobState=COMPLETED ExitCode=0:0'; fi"
    )
    ref = fakes(tmp_path, monkeypatch, scontrol=body)
    assert b"".join(Slurm().logs(ref, follow=True)) == b"line 1\nline 2\nline 3\nline 4\n"


def test_a_job_that_ends_while_it_is_cancelled_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n = tmp_path / "n"
    states = f"echo x >>{n}; if [ $(wc -l <{n}) = 1 ]; then echo JobState=RUNNING; else echo JobState=FAILED; fi"
    error = "echo 'scancel: error: Kill job error on job id 7: Invalid job id specified' >&2; exit 1"
    ref = fakes(tmp_path, monkeypatch, scontrol=states, squeue="echo 7.batch; echo 7.0", scancel=error)
    assert "it has ended" in Slurm().cancel(ref, now=False)
    fakes(
        tmp_path, monkeypatch, scontrol="echo JobState=RUNNING", scancel="echo 'Access/permission denied' >&2; exit 1"
    )
    with pytest.raises(InputError, match="permission denied"):
        Slurm().cancel(ref, now=True)
