"""What all renderers say alike."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.launch.node.options import parse
from orbit.launch.plan import ENTRYPOINT
from orbit.launch.render import render
from orbit.launch.render.words import (
    assignments,
    check,
    environment,
    exporting,
    host_path,
    node_argv,
    order_of,
    quoted,
    quoted_host,
    relative_word,
)
from tests.launch.render.plans import DIGEST, plan

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
ODD = [
    "",
    " ",
    "a b",
    "it's",
    '"',
    "$HOME",
    "`id`",
    "$(id)",
    "\\",
    "a\nb",
    "\n",
    "tab\t",
    "*",
    "~",
    "-n",
    "\u00e4\u20ac\U0001f600",
]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["python3.12", "train.py"], "train.py"),
        (["python3.12", "./train"], "./train"),
        (["python3.12", "../train"], "../train"),
        (["bin/train"], "bin/train"),
        (["python3.12", "scripts/run/train.py", "--x"], "scripts/run/train.py"),
        (["orbit", "conf/small.yaml"], "conf/small.yaml"),
        (["python3.12", "/data/train.py"], None),
        (["python3.12", "-m", "orbit.train", "--model", "Qwen/Qwen3-8B"], None),
        (["python3.12", "-c", "print('a.py')"], None),
        (["sh", "-c", "exec python3.12 train.py"], None),
        (["x", "data=conf/a.yaml", "--config=a.toml", "https://example.org/a.json", "s3://b/c.json"], None),
    ],
)
def test_a_relative_path_in_a_command_is_seen(command: list[str], found: str | None) -> None:
    assert relative_word(command) == found


@pytest.mark.parametrize(("scheduler", "form"), [("docker", "run"), ("slurm", "pyxis")])
def test_a_relative_path_is_refused_unless_its_folder_is_named(scheduler: str, form: str) -> None:
    with pytest.raises(InputError, match=r"'train\.py' is relative") as caught:
        render(plan(scheduler, command=["python3.12", "train.py"]), form)
    assert "launch.folder" in caught.value.fix
    check(plan(scheduler, command=["python3.12", "train.py"], folder="/data"))


@pytest.mark.parametrize(
    "mount",
    [
        {"host": "data", "container": "/data"},
        {"host": "/data", "container": "data"},
        {"host": "/a,b", "container": "/data"},
        {"host": "/a", "container": "/da:ta"},
        {"host": "/a\nb", "container": "/data"},
        {"host": "/${HOME}/x", "container": "/data"},
        {"host": "/$(id)", "container": "/data"},
        {"host": "/a/../b", "container": "/data"},
        {"host": '/a"', "container": "/data"},
    ],
)
def test_a_mount_that_no_form_can_say_is_refused(mount: dict[str, str]) -> None:
    with pytest.raises(InputError, match="mount") as caught:
        check(plan(mounts=[mount]))
    assert caught.value.fix


def test_mounts_of_user_names_and_spaces_are_said() -> None:
    check(plan(mounts=[{"host": "/home/${USER}/my data", "container": "/data"}]))
    with pytest.raises(InputError, match="two mounts at /data"):
        check(plan(mounts=[{"host": "/a", "container": "/data"}, {"host": "/b", "container": "/data/"}]))


@given(TEXT.filter(bool), st.lists(TEXT, max_size=3))
@settings(max_examples=60)
def test_the_node_program_reads_what_is_written(first: str, more: list[str]) -> None:
    made = plan("slurm", command=["/bin/x", first, *more], nodes=2, gpus_per_node=8, unfit="leave-out", least_nodes=1)
    order = order_of(made, rank="env:SLURM_PROCID", meet="tcp:env:ORBIT_HEAD")
    argv = node_argv(order)
    assert argv[:4] == (ENTRYPOINT, "orbit", "launch", "node")
    assert parse(argv[4:]) == order
    assert (order.image, order.ports, order.least, order.gpus) == (DIGEST, made.ports, 1, 8)


@pytest.mark.parametrize(
    ("of_job", "of_site", "said"),
    [("wanted", "none", "none"), ("required", "wanted", "required"), ("none", "required", "required"),
     ("none", "wanted", "none"), ("wanted", "wanted", "wanted")],
)  # fmt: skip
def test_rdma_is_asked_where_the_site_has_it_or_demands_it(of_job: str, of_site: str, said: str) -> None:
    assert order_of(plan(rdma=of_job, of_site={"network": {"rdma": of_site}})).rdma == said


def test_an_environment_instead_of_an_image_has_no_digest_to_ask_for() -> None:
    source = {"runtime": "none", "form": "prefix", "path": "/sw/orbit"}
    assert order_of(plan("slurm", of_site={"image": source})).image == ""


def test_the_proxy_gets_nothing_of_the_nodes() -> None:
    network = {"proxy": "http://p.example.org:3128", "no_proxy": [".example.org"]}
    found = environment(plan(of_site={"network": network}), near=["n0", "n1"])
    assert found["http_proxy"] == found["HTTPS_PROXY"] == "http://p.example.org:3128"
    assert found["no_proxy"] == found["NO_PROXY"] == "localhost,127.0.0.1,::1,n0,n1,.example.org"
    assert "no_proxy" not in environment(plan())


def test_the_recipe_has_the_last_word_on_variables() -> None:
    found = environment(plan(environment={"ORBIT_STATE": "/mine"}, of_site={"storage": {"scratch": "/scratch/"}}))
    assert found["ORBIT_STATE"] == "/mine"
    assert environment(plan(of_site={"storage": {"scratch": "/scratch/"}}))["ORBIT_STATE"] == "/scratch/orbit-demo"
    assert list(found) == sorted(found)


def test_host_paths_follow_the_innermost_mount() -> None:
    made = plan(mounts=[{"host": "/a", "container": "/data"}, {"host": "/b", "container": "/data/in"}])
    assert host_path(made, "/data/in/x") == "/b/x"
    assert host_path(made, "/data/inner") == "/a/inner"
    assert host_path(made, "/data") == "/a"
    assert host_path(made, "/other") == ""


def shell(script: str, **env: str) -> bytes:
    """What a POSIX shell prints."""
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True, env={"PATH": os.defpath} | env)
    return done.stdout


@pytest.mark.parametrize("text", ODD)
def test_a_quoted_word_reaches_a_program_unchanged(text: str) -> None:
    assert shell(f"printf '%s.' {quoted(text)}") == f"{text}.".encode()


@given(st.dictionaries(st.sampled_from(["A", "B_1", "LONG"]), TEXT))
@settings(max_examples=40)
def test_variables_reach_a_program_unchanged(values: dict[str, str]) -> None:
    printed = shell(f"env -i {' '.join(assignments(values))} /usr/bin/env -0")
    found = dict(item.split("=", 1) for item in printed.decode().split("\0") if item)
    assert found == values


def test_a_user_name_in_a_host_path_is_the_shells() -> None:
    assert shell(f"printf %s {quoted_host('/home/${USER}/my $x')}", user="ann b") == b"/home/ann b/my $x"


@pytest.mark.parametrize("value", [*ODD, "line\n\n"])
def test_secrets_come_from_their_files_and_nothing_is_lost(tmp_path: Path, value: str) -> None:
    (tmp_path / "KEY").write_text(value)
    (tmp_path / "B").write_text("b")
    argv = exporting(["KEY", "B"], str(tmp_path), ["/usr/bin/env", "-0"])
    done = subprocess.run(argv, capture_output=True, check=True, env={"PATH": os.defpath})
    found: dict[str, Any] = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)
    assert (found["KEY"], found["B"]) == (value, "b")


def test_a_missing_secret_ends_the_node_before_the_command(tmp_path: Path) -> None:
    done = subprocess.run(exporting(["KEY"], str(tmp_path), ["/bin/echo", "ran"]), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert exporting([], "/x", ["a"]) == ("a",)
