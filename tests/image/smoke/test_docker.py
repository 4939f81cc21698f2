"""The checks under docker: the same conditions as with the other engines."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.image.smoke import run as smoke
from orbit.image.smoke.devices import Devices
from orbit.image.smoke.docker import Docker, find_docker, find_podman, open_docker, open_podman, own_limits
from orbit.image.smoke.engine import Choice
from orbit.profile.model import load_profile
from orbit.smoke.model import Conditions
from tests.image.tiny import PLAN, inside, tiny


def test_docker_words() -> None:
    words = Docker(program=Path("/d"), version="1", image="sha256:1").argv(65534, ["python"], Devices())
    text = " ".join(words)
    for part in (
        "--read-only",
        "--network none",
        "--user 65534:65534",
        "--tmpfs /tmp:",
        "--shm-size",
        "--cap-drop ALL",
    ):
        assert part in text
    assert words[-2:] == ["sha256:1", "python"]


def test_podman_takes_the_same_words_but_for_its_own() -> None:
    engine = Docker(program=Path("/p"), version="1", image="1", name="podman", words=("--runtime", "runc"))
    conditions = Conditions(tmp_mb=0, shm_mb=64, variables={"HOME": ""})
    words = engine.argv(0, ["python"], Devices(nodes=("/dev/nvidia0",)), conditions)
    assert words[:4] == ["/p", "--runtime", "runc", "run"]
    text = " ".join(words)
    assert "--read-only-tmpfs=false" in text
    assert "--shm-size 64m" in text
    assert "--env HOME=" in text
    assert "--pids-limit -1" in text
    assert "--tmpfs" not in text.replace("--read-only-tmpfs", "")
    assert "--device nvidia.com/gpu=all" in text
    assert "--init" not in words
    assert "--cap-drop" not in words


def test_limits_are_none_that_this_process_may_not_give() -> None:
    words = own_limits()
    assert words[0::2] == ["--ulimit"] * 2
    name, _, pair = words[1].partition("=")
    assert name == "nofile"
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert hard in (resource.RLIM_INFINITY, int(pair.split(":")[1])) or int(pair.split(":")[1]) < hard


@pytest.mark.integration
def test_podman_gives_the_same_conditions(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = find_podman()
    if isinstance(choice, str):
        pytest.skip(choice)
    engine = open_podman(choice, tiny(tmp_path), "orbit/test-smoke:tiny", progress=Silent())
    try:
        for uid in (0, 65534):
            done = inside(engine, uid, "cat; echo; id -u; env; cat /etc/root-only; touch /x")
            lines = done.stdout.splitlines()
            assert lines[:2] == ["given", str(uid)], done.stderr
            assert {"OWN=image", "SEEN_ENTRYPOINT=yes"} <= set(lines)
            assert "leaked" not in done.stdout
            assert ("secret" in lines) is (uid == 0)
            assert "Read-only file system" in done.stderr
        monkeypatch.setattr(smoke, "load_list", lambda _name: PLAN)
        profile = load_profile("probe")
        report = smoke.run_smoke(profile, tmp_path / "tiny", ["tiny"], store, engine="podman", progress=Silent())
        assert report.counts()["passed"] == 6
    finally:
        words = [choice.program, "image", "rm", "-f", engine.image]
        subprocess.run(words, capture_output=True, check=False)


@pytest.mark.docker
@pytest.mark.integration
def test_docker_gives_the_same_conditions(
    docker_engine: str, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = find_docker()
    assert isinstance(choice, Choice), choice
    engine = open_docker(choice, tiny(tmp_path), "orbit/test-smoke:tiny", progress=Silent())
    try:
        for uid in (0, 65534):
            done = inside(engine, uid, "cat; echo; id -u; env; cat /etc/root-only; touch /x")
            lines = done.stdout.splitlines()
            assert lines[:2] == ["given", str(uid)]
            assert {"OWN=image", "SEEN_ENTRYPOINT=yes"} <= set(lines)
            assert "leaked" not in done.stdout
            assert ("secret" in lines) is (uid == 0)
            assert "Read-only file system" in done.stderr
        monkeypatch.setattr(smoke, "load_list", lambda _name: PLAN)
        report = smoke.run_smoke(
            load_profile("probe"), tmp_path / "tiny", ["tiny"], store, engine="docker", progress=Silent()
        )
        assert report.counts()["passed"] == 6
    finally:
        subprocess.run([choice.program, "image", "rm", "-f", engine.image], capture_output=True, check=False)
