"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from orbit.core.store import Store

ENGINE_START_S = 40

# a machine that compiles beside the tests is slow for a moment: how long one example takes is no property of ours
settings.register_profile("orbit", deadline=None)
settings.load_profile("orbit")

# a shell starts background jobs with SIGINT ignored, and so would be every program that a test starts and interrupts
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store of this test's own."""
    return Store(tmp_path / "store")


@pytest.fixture(scope="session")
def docker_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``DOCKER_HOST`` of an engine that answers: the machine's, else one started here and stopped at the end.

    Skips with the reason when there is none and none can be started.
    """
    client = next((c for c in ("/usr/bin/docker", shutil.which("docker")) if c and Path(c).exists()), None)
    if client is None:
        pytest.skip("no docker client is installed")
    if _answers(client, os.environ.get("DOCKER_HOST", "")):
        yield os.environ.get("DOCKER_HOST", "")
        return
    daemon = shutil.which("dockerd")
    if daemon is None or os.geteuid() != 0:
        pytest.skip("no docker engine answers, and none can be started (needs dockerd and root)")
    folder = tmp_path_factory.mktemp("dockerd")
    host = f"unix://{folder}/docker.sock"
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [daemon, "--host", host, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec",
         "--pidfile", f"{folder}/pid", "--bridge", "none", "--iptables=false"],
        stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + ENGINE_START_S
        while not _answers(client, host):
            if process.poll() is not None or time.monotonic() > deadline:
                tail = (folder / "log").read_text(errors="replace")[-400:]
                pytest.skip(f"dockerd does not start here: {tail}")
            time.sleep(0.3)
        os.environ["DOCKER_HOST"] = host
        yield host
    finally:
        os.environ.pop("DOCKER_HOST", None)
        process.terminate()
        process.wait(30)
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(client: str, host: str) -> bool:
    env = os.environ | ({"DOCKER_HOST": host} if host else {})
    done = subprocess.run(
        [client, "version", "--format", "{{.Server.Version}}"], capture_output=True, env=env, check=False
    )
    return done.returncode == 0
