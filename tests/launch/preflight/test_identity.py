"""identity: users without a name, homes that cannot be written, another image, another namespace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.launch.preflight.identity import judge_identity, read_identity
from orbit.launch.preflight.model import Demand, State
from tests.launch.preflight.made import Machine, only

DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "home/ann").mkdir(parents=True)
    return Machine(tmp_path).write("/etc/passwd", "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n")


@pytest.mark.parametrize(
    ("uid", "env", "state"),
    [(1000, {}, State.PASSED), (12345, {}, State.FAILED), (12345, {"USER": "uid-12345"}, State.PASSED),
     (12345, {"LOGNAME": "x"}, State.PASSED), (12345, {"USER": ""}, State.FAILED)],
)  # fmt: skip
def test_user(machine: Machine, uid: int, env: dict[str, str], state: State) -> None:
    check = only(judge_identity(read_identity(machine.root, env, uid), Demand(), env), "user")
    assert check.state is state
    assert str(uid) in check.message


@pytest.mark.parametrize(
    ("env", "state"),
    [({"HOME": "/home/ann"}, State.PASSED), ({}, State.FAILED), ({"HOME": "/"}, State.FAILED),
     ({"HOME": "/nonexistent"}, State.FAILED), ({"HOME": "/nonexistent", "XDG_CACHE_HOME": "/tmp/c"}, State.WARNING)],
)  # fmt: skip
def test_home(machine: Machine, env: dict[str, str], state: State) -> None:
    assert only(judge_identity(read_identity(machine.root, env, 1000), Demand(), env), "home").state is state


@pytest.mark.parametrize(
    ("wanted", "told", "state"),
    [("", DIGEST, State.SKIPPED), (DIGEST, DIGEST, State.PASSED), (DIGEST, "", State.WARNING),
     (DIGEST, "sha256:" + "b" * 64, State.FAILED)],
)  # fmt: skip
def test_image(machine: Machine, wanted: str, told: str, state: State) -> None:
    env = {"ORBIT_IMAGE_DIGEST": told}
    assert only(judge_identity(read_identity(machine.root, env), Demand(image=wanted), env), "image").state is state


def test_namespaces(machine: Machine) -> None:
    for process, value in (("self", 1), ("1", 2)):
        folder = machine.root / f"proc/{process}/ns"
        folder.mkdir(parents=True)
        os.symlink(f"ipc:[{value}]", folder / "ipc")
        os.symlink("pid:[1]", folder / "pid")
    check = only(judge_identity(read_identity(machine.root, {}), Demand(), {}), "namespaces")
    assert check.state is State.WARNING
    assert "another ipc namespace" in check.message


def test_the_real_one_has_its_own_namespaces() -> None:
    assert read_identity(Path("/"), os.environ).namespaces["ipc"].startswith("ipc:[")
