"""The checks under docker: the same conditions as with the other engines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.image.smoke import run as smoke
from orbit.image.smoke.devices import Devices
from orbit.image.smoke.docker import Docker, find_docker, open_docker
from orbit.image.smoke.engine import Choice
from orbit.profile.model import load_profile
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
        assert report.counts()["passed"] == 4
    finally:
        subprocess.run([choice.program, "image", "rm", "-f", engine.image], capture_output=True, check=False)
