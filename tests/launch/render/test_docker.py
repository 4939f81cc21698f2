"""docker run: what the engine is told, as a shell really says it, and what is refused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.launch.node.options import parse
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import default_form, render
from orbit.launch.render.container import container_of
from orbit.launch.render.words import environment
from tests.launch.render.golden import check_golden
from tests.launch.render.plans import DIGEST, REPOSITORY, plan
from tests.launch.render.scripts import check_shell, options_of, recorded, steady

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
FULL: dict[str, Any] = {
    "gpus_per_node": 2,
    "secrets": ["HF_TOKEN"],
    "environment": {"ODD": 'it\'s $HOME,\n"x" \\ `id`'},
    "folder": "/data/my run",
    "command": ["python3.12", "train.py", "--note", "a b"],
    "mounts": [
        {"host": "/home/${USER}/my data", "container": "/data"},
        {"host": "/models", "container": "/models", "read_only": True},
    ],
}
SITES: dict[str, dict[str, Any]] = {
    "plain": {},
    "caller": {"user": {"policy": "caller"}, "storage": {"scratch": "/scratch"}},
    "fixed": {"user": {"policy": "fixed", "uid": 4000, "gid": 4000}, "limits": {"pids": 5000, "nofile": 4096}},
    "rdma": {"network": {"host_network": True, "rdma": "required"}, "limits": {"memlock": "unlimited"}},
    "closed": {"limits": {"pidfd_getfd": False}, "network": {"proxy": "http://p.example.org:3128"}},
    "podman": {"image": {"runtime": "podman", "repository": REPOSITORY}, "user": {"policy": "caller"}},
}


def script(made: LaunchPlan) -> str:
    """The one file."""
    (file,) = render(made, "run")
    assert (file.name, file.mode) == ("demo.sh", 0o755)
    return file.text


@pytest.mark.parametrize("name", sorted(SITES))
def test_the_script_is_the_golden_one_and_a_shell_reads_it(name: str, tmp_path: Path) -> None:
    files = steady(plan(of_site=SITES[name], **FULL), "run")
    check_golden(f"docker-{name}", files)
    check_shell(files[0].text, tmp_path)


def test_several_machines_run_the_same_script(tmp_path: Path) -> None:
    made = plan(nodes=2, gpus_per_node=8, of_site=SITES["rdma"])
    files = steady(made, "run")
    check_golden("docker-2-machines", files)
    check_shell(files[0].text, tmp_path)
    owner = tmp_path / "token"
    owner.write_text("ab" * 32)
    words = {"ORBIT_OWNER_FILE": str(owner), "ORBIT_GPUS": "4,5"}
    (call,) = recorded(script(made), tmp_path, "1", "first.example.org", programs=("docker",), **words)
    order = parse(call[call.index("node") + 1 :])
    assert (order.rank, order.meet, order.ports) == ("env:ORBIT_RANK", "tcp:env:ORBIT_HEAD", made.ports)
    assert {"ORBIT_RANK=1", "ORBIT_HEAD=first.example.org"} <= set(options_of(call, "--env"))
    assert options_of(call, "--name") == ["demo-1"]
    assert options_of(call, "--gpus") == ['"device=4,5"']


@given(st.dictionaries(st.sampled_from(["A", "B", "LONG_NAME"]), TEXT), st.lists(TEXT.filter(bool), max_size=3))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_the_engine_gets_is_what_the_plan_says(
    tmp_path: Path, variables: dict[str, str], words: list[str]
) -> None:
    made = plan(environment=variables, command=["/bin/x", *words], gpus_per_node=1)
    (call,) = recorded(script(made), tmp_path, programs=("docker",))
    found = dict(text.split("=", 1) for text in options_of(call, "--env"))
    assert found == container_of(made, owner=False).environment == {"ORBIT_STATE": "/var/tmp/orbit"} | environment(made)
    assert parse(call[call.index("node") + 1 :]).command == ("/bin/x", *words)
    assert f"{REPOSITORY}@{DIGEST}" in call
    assert not [word for word in call if word.endswith(":latest")]


def test_a_secret_is_in_a_file_of_a_folder_nobody_else_can_enter(tmp_path: Path) -> None:
    made = plan(**FULL, of_site=SITES["caller"])
    looking = script(made).replace(
        '"$engine" run', 'ls -ld "$private" "$private"/* >&2; cat "$private"/HF_TOKEN >&2; "$engine" run'
    )
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/docker").write_text("#!/bin/sh\n")
    (tmp_path / "tools/docker").chmod(0o755)
    path = tmp_path / "script"
    path.write_text(looking)
    env = {"PATH": f"{tmp_path}/tools:{os.defpath}", "HF_TOKEN": "very secret", "TMPDIR": str(tmp_path)}
    done = subprocess.run(["/bin/sh", str(path)], env=env, capture_output=True, text=True, check=True)
    folder, file, *_ = done.stderr.splitlines()
    assert folder.startswith("drwx------")
    assert file.startswith("-rw-------")
    assert done.stderr.endswith("very secret")
    assert not list(tmp_path.glob("orbit.*"))
    (call,) = recorded(script(made), tmp_path, programs=("docker",), HF_TOKEN="very secret")
    assert not [word for word in call if "very secret" in word]
    assert [mount for mount in options_of(call, "--mount") if mount.endswith("/run/orbit/secrets/HF_TOKEN,readonly")]


def test_a_missing_secret_is_named_and_nothing_started(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="HF_TOKEN: is a secret of this job"):
        recorded(script(plan(**FULL)), tmp_path, programs=("docker",))
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("changed", "of_site", "present", "absent"),
    [
        ({}, {}, [], ["--gpus", "--cap-add", "--user", "--device", "--cap-drop", "--init"]),
        ({"gpus_per_node": 1}, {}, ["--cap-add SYS_PTRACE"], ["IPC_LOCK"]),
        ({"gpus_per_node": 1}, SITES["closed"], [], ["--cap-add"]),
        ({}, SITES["fixed"], ["--user 4000:4000", "--cap-drop ALL", "--ulimit nofile=4096:4096"], []),
        ({}, SITES["rdma"], ["--device /dev/infiniband", "--ulimit memlock=-1:-1", "--network host"], ["if [ -d"]),
        ({}, {"network": {"rdma": "wanted"}}, ["if [ -d /dev/infiniband ]"], []),
        ({"shm_gib": 64, "grace_seconds": 90}, {}, ["--shm-size 64g", "--stop-timeout 90"], []),
        ({}, {}, ["--read-only --tmpfs /tmp:exec,mode=1777,size=4g", "--volume /var/tmp"], []),
        ({}, {"storage": {"scratch": "/scratch"}}, ["--env ORBIT_STATE=/scratch/orbit-demo"], ["/var/tmp"]),
    ],
)
def test_an_option_is_there_when_it_is_needed_and_only_then(
    changed: dict[str, Any], of_site: dict[str, Any], present: list[str], absent: list[str]
) -> None:
    text = script(plan(of_site=of_site, **changed))
    assert [piece for piece in present if piece not in text] == []
    assert [piece for piece in absent if piece in text] == []


def test_the_form_that_fits_is_taken_and_what_does_not_is_refused() -> None:
    assert default_form(plan()) == "run"
    assert default_form(plan(nodes=2)) == "compose"
    assert default_form(plan(nodes=2, of_site=SITES["rdma"])) == "run"
    with pytest.raises(InputError, match="containers of a bridge cannot be reached"):
        render(plan(nodes=2), "run")
    with pytest.raises(InputError, match=r"image\.runtime = 'pyxis'"):
        render(plan(of_site={"image": {"runtime": "pyxis", "repository": REPOSITORY}}), "run")


def test_dockers_own_parser_accepts_it(tmp_path: Path) -> None:
    """Options are parsed before the engine is asked: with no engine behind it, the only complaint is that."""
    client = shutil.which("docker")
    if client is None:
        pytest.skip("no docker client is installed")
    path = tmp_path / "script"
    env = {"PATH": os.defpath, "ORBIT_DOCKER": client, "DOCKER_HOST": f"unix://{tmp_path}/none", "HF_TOKEN": "x"}
    unreachable = r"docker daemon|docker API|unknown server OS: "  # the last is how 20.10 says it
    for changed, said in (("", unreachable), ("--no-such-option ", "unknown flag: --no-such-option")):
        for of_site in (of_site for name, of_site in SITES.items() if name != "podman"):
            path.write_text(script(plan(of_site=of_site, **FULL)).replace("run --detach", f"run {changed}--detach"))
            done = subprocess.run(["/bin/sh", str(path)], env=env, capture_output=True, text=True, check=False)
            assert done.returncode != 0
            assert re.search(said, done.stderr), done.stderr
