"""docker for real where an engine can be had; and what is made of its answers, whatever they are."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbit.cli import main
from orbit.core import proc
from orbit.core.console import Silent
from orbit.errors import CommandFailed, InputError, MissingError, RefusedError
from orbit.image.registry.push import push
from orbit.image.registry.reference import parse_reference
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import default_form, render
from orbit.launch.submit.docker import Docker
from orbit.launch.submit.model import JobRef, Phase
from tests.image.registry.fake import FakeRegistry, serving
from tests.launch.render.plans import plan
from tests.launch.submit.test_slurm import toml, wait_for
from tests.writers.tiny_image import file, folder, host_programs, symlink, write_image

ORBIT = b"""#!/bin/sh
# in the place of orbit in the image: tells how it was called, and lives as the test wants
env -0 >"/data/env.0"
printf '%s\\0' "$@" >"/data/argv.0"
id -u
trap 'echo saved >/data/saved; exit 9' TERM
case $* in *-stay*) echo up >/data/up; while :; do sleep 0.2; done ;; *-fail*) exit 7 ;; esac
echo to-stderr >&2
"""
ENTRYPOINT = b"""#!/bin/sh
exec "$@"
"""


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of the test's own."""
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "store"))


class Answers:
    """A client in the place of docker: answers ``ps`` and ``inspect`` from files, keeps what it was asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "client"
        self.folder.mkdir()
        program = self.folder / "docker"
        program.write_text(
            f'#!/bin/sh\necho "$@" >>{self.folder}/asked\ncase $1 in\n'
            f"run) cat {self.folder}/run 2>/dev/null && exit 125; echo id-new ;;\n"
            f"ps) cat {self.folder}/ps 2>/dev/null ;;\n"
            f"inspect) cat {self.folder}/inspect ;;\n"
            f'logs) echo "out of $3$2"; echo err >&2 ;;\nesac\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("ORBIT_DOCKER", str(program))

    def has(self, *containers: tuple[str, str, int]) -> None:
        """Containers as (name, state, exit code)."""
        said = [
            {"Id": name, "Name": f"/{name}", "Config": {"Labels": {}}, "State": {"Status": state, "ExitCode": code}}
            for name, state, code in containers
        ]
        (self.folder / "ps").write_text("".join(f"{name}\n" for name, _, _ in containers))
        (self.folder / "inspect").write_text(json.dumps(said))

    def asked(self) -> str:
        """Every call so far."""
        path = self.folder / "asked"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answers:
    """The client."""
    return Answers(tmp_path, monkeypatch)


def ref(**changed: Any) -> JobRef:
    """A submission."""
    plain: dict[str, Any] = {
        "name": "demo", "scheduler": "docker", "form": "run", "id": "x", "identity": "", "site": "s", "nodes": 1,
        "submitted": "", "grace_seconds": 5,
    }  # fmt: skip
    return JobRef(**plain | changed)


def submit(made: LaunchPlan, folder: Path) -> JobRef:
    """Submit as the command does."""
    form = default_form(made)
    files = render(made, form)
    for one in files:
        (folder / one.name).write_text(one.text)
    return Docker().submit(made, form, files, folder, {})


@pytest.mark.parametrize(
    ("containers", "phase", "code"),
    [
        ([], Phase.GONE, None),
        ([("demo", "running", 0)], Phase.RUNNING, None),
        ([("demo", "created", 0)], Phase.WAITING, None),
        ([("demo", "exited", 0)], Phase.SUCCEEDED, 0),
        ([("demo", "exited", 7)], Phase.FAILED, 7),
        ([("demo", "paused", 0)], Phase.RUNNING, None),
        ([("node-0", "exited", 3), ("node-1", "running", 0)], Phase.RUNNING, None),
        ([("node-1", "exited", 0), ("node-0", "exited", 3), ("node-10", "exited", 1)], Phase.FAILED, 3),
    ],
)
def test_the_state_of_the_first_node_is_the_jobs_when_all_have_ended(
    answers: Answers, containers: list[tuple[str, str, int]], phase: Phase, code: int | None
) -> None:
    answers.has(*containers)
    found = Docker().status(ref())
    assert (found.phase, found.exit_code) == (phase, code)


def test_a_running_job_of_that_name_is_not_touched(answers: Answers, tmp_path: Path) -> None:
    answers.has(("demo", "running", 0))
    with pytest.raises(RefusedError, match="is running"):
        submit(plan(), tmp_path)
    assert "run " not in answers.asked()
    assert "rm " not in answers.asked()


def test_what_is_left_of_the_last_run_makes_room(answers: Answers, tmp_path: Path) -> None:
    answers.has(("demo", "exited", 1))
    submit(plan(), tmp_path)
    asked = answers.asked()
    assert asked.index("rm --force --volumes demo") < asked.index("run --detach")


def test_a_container_that_does_not_start_is_removed(answers: Answers, tmp_path: Path) -> None:
    answers.has()
    (answers.folder / "run").write_text("docker: could not select device driver\n")
    ps = answers.folder / "docker"
    ps.write_text(ps.read_text().replace("ps) ", f"ps) grep -q ^run {answers.folder}/asked && echo demo; "))
    (answers.folder / "inspect").write_text(
        json.dumps([{"Id": "demo", "Name": "/demo", "Config": {}, "State": {"Status": "created"}}])
    )
    with pytest.raises(CommandFailed, match="starting demo"):
        submit(plan(), tmp_path)
    assert "rm --force --volumes demo" in answers.asked()


def test_several_machines_are_not_one_engine(answers: Answers, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a docker engine is one machine"):
        submit(plan(nodes=2, of_site={"network": {"host_network": True}}), tmp_path)
    assert answers.asked() == ""


def test_cancel_stops_what_runs_and_then_removes_what_ended(answers: Answers) -> None:
    answers.has(("node-0", "running", 0), ("node-1", "running", 0))
    assert "2 container(s) ended" in Docker().cancel(ref(), now=False)
    assert "stop node-0 node-1" in answers.asked()
    Docker().cancel(ref(), now=True)
    assert "kill node-0 node-1" in answers.asked()
    answers.has(("node-0", "exited", 0))
    assert "1 container(s) removed" in Docker().cancel(ref(), now=False)
    answers.has()
    assert Docker().cancel(ref(), now=False) == "nothing of it is left"


def test_logs_have_both_streams_and_say_which_node(answers: Answers) -> None:
    answers.has(("node-0", "exited", 0), ("node-1", "exited", 0))
    text = b"".join(Docker().logs(ref(), follow=False)).decode()
    assert text.index("== node-0") < text.index("err") < text.index("== node-1")
    answers.has()
    with pytest.raises(MissingError, match="its containers are gone"):
        list(Docker().logs(ref(), follow=False))


def test_an_engine_that_is_not_there_is_exit_status_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = tmp_path / "docker"
    client.write_text(
        "#!/bin/sh\necho 'Cannot connect to the Docker daemon at unix:///x. Is it running?' >&2; exit 1\n"
    )
    client.chmod(0o755)
    monkeypatch.setenv("ORBIT_DOCKER", str(client))
    monkeypatch.setenv("DOCKER_HOST", "unix:///x")
    assert main(["launch", "submit", *recipe(tmp_path, "registry.example.org/x@sha256:" + "ab" * 32, ["/x"])]) == 3
    said = capsys.readouterr().err
    assert "no docker engine answers (tried: unix:///x)" in said
    monkeypatch.delenv("ORBIT_DOCKER")
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert main(["launch", "submit", *recipe(tmp_path, "registry.example.org/x@sha256:" + "ab" * 32, ["/x"])]) == 3
    assert "no docker client on PATH" in capsys.readouterr().err


def recipe(folder: Path, image: str, command: list[str], **more: Any) -> list[str]:
    """Recipe and site of one machine without a network of containers; the words that name them."""
    job = {"name": "demo", "image": image, "command": command, "shm_gib": 1, "cpus_per_node": 1, "memory_gib": 1,
           "ray": False, "grace_seconds": 10} | more  # fmt: skip
    text = "schema = 1\n[launch]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in job.items())
    (folder / "recipe.toml").write_text(text)
    data = folder / "data"
    data.mkdir(exist_ok=True)
    data.chmod(0o777)
    site = {
        "schema": 1, "name": "one", "scheduler": "docker", "nodes": {"gpus": 0, "cpus": 2, "memory_gib": 2},
        "image": {"runtime": "docker"}, "network": {"host_network": True},
        "limits": {"nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[1], "pids": 1000},
        "user": {"policy": "fixed", "uid": 4000, "gid": 4000},
    }  # fmt: skip
    text = "".join(f"{key} = {toml(value)}\n" for key, value in site.items())
    text += f'[[storage.mounts]]\nhost = "{data}"\ncontainer = "/data"\n'
    (folder / "site.toml").write_text(text)
    return [str(folder / "recipe.toml"), "--site", str(folder / "site.toml")]


@pytest.fixture
def image(docker_engine: str, tmp_path: Path) -> Iterator[str]:
    """``repository@digest`` of a small image in a registry that the engine reaches; its orbit is the script above."""
    assert docker_engine is not None
    folders = ("etc", "proc", "dev", "sys", "run", "data")
    base = [
        *(folder(name) for name in folders), folder("tmp", 0o1777), folder("var"), folder("var/tmp", 0o1777),
        symlink("bin", "usr/bin"), *host_programs("sh", "cat", "id", "env", "sleep"),
        file("opt/orbit/bin/orbit-entrypoint", ENTRYPOINT, 0o755), file("usr/bin/orbit", ORBIT, 0o755),
    ]  # fmt: skip
    layout = write_image(tmp_path / "image", [base], config={})
    with serving(FakeRegistry()) as registry:
        pushed = push(layout, parse_reference(f"{registry.host}/team/orbit:new"), progress=Silent())
        name = f"{registry.host}/team/orbit@{pushed.digest}"
        yield name
        proc.run(["docker", "image", "rm", "--force", name], doing="clearing up", check=False)


def read(path: Path) -> list[str]:
    """NUL-ended words."""
    return path.read_bytes().decode().removesuffix("\0").split("\0")


@pytest.mark.integration
def test_a_job_in_a_real_engine(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KEY", "s3 cr$t\nx")
    odd = 'it\'s $HOME,\n "x" \\ `id` \u00e4'
    words = recipe(tmp_path, image, ["/bin/true", "a b", odd], environment={"ODD": odd}, secrets=["KEY"])
    assert main(["launch", "submit", *words]) == 0
    assert main(["launch", "status", "--wait", "demo"]) == 0
    found = dict(item.split("=", 1) for item in read(tmp_path / "data/env.0"))
    assert (found["ODD"], found["KEY"]) == (odd, "s3 cr$t\nx")
    assert read(tmp_path / "data/argv.0")[-3:] == ["/bin/true", "a b", odd]
    capfd.readouterr()
    assert main(["launch", "logs", "demo"]) == 0
    assert sorted(capfd.readouterr().out.splitlines()) == ["4000", "to-stderr"]
    said = proc.run(["docker", "inspect", "demo"], doing="looking").stdout.decode()
    assert "s3 cr" not in said
    assert main(["launch", "cancel", "demo"]) == 0
    label = ["--filter", "label=io.orbit.job=demo"]
    assert proc.run(["docker", "ps", "--all", "--quiet", *label], doing="looking").stdout == b""
    volume = next(mount["Name"] for mount in json.loads(said)[0]["Mounts"] if mount["Type"] == "volume")
    assert volume not in proc.run(["docker", "volume", "ls", "--quiet"], doing="looking").stdout.decode()


@pytest.mark.integration
def test_a_job_in_a_real_engine_is_cancelled_with_its_grace_period(
    image: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = recipe(tmp_path, image, ["-stay"])
    assert main(["launch", "submit", *words]) == 0
    wait_for((tmp_path / "data/up").exists)
    assert main(["launch", "submit", *words]) == 4
    began = time.monotonic()
    assert main(["launch", "cancel", "demo"]) == 0
    assert (tmp_path / "data/saved").exists()
    assert main(["launch", "status", "demo"]) == 1
    assert "cancelled (docker" in capsys.readouterr().out
    assert time.monotonic() - began < 60  # not the whole grace period and more: it ended by itself
    assert main(["launch", "cancel", "demo"]) == 0
    assert main(["launch", "submit", *recipe(tmp_path, image, ["-fail"])]) == 0
    assert main(["launch", "status", "--wait", "demo"]) == 1
    assert "status 7" in capsys.readouterr().out
    assert main(["launch", "cancel", "demo"]) == 0
    assert os.environ.get("ORBIT_DOCKER") is None
