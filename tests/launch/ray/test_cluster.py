"""Ray's environment, and its starter on one node: what it says, what it does when it cannot."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from orbit.errors import MissingError
from orbit.launch.node.meeting.folder import own_addresses
from orbit.launch.ray import cluster
from orbit.launch.ray.cluster import (
    RayFailed,
    ray_environment,
    ray_node,
    stale_variables,
    starter_argv,
    write_token,
)
from orbit.launch.ray.spec import NodeSpec


@pytest.fixture
def folder() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="ob"))
    yield place
    shutil.rmtree(place)


def test_another_clusters_variables_are_left_behind(tmp_path: Path) -> None:
    env = {"RAY_ADDRESS": "h:1", "RAY_AUTH_TOKEN": "x", "MINE": "y", "RAY_TMPDIR": "/elsewhere"}
    made = ray_environment(env, token_file=tmp_path / "token", mark="M=1", folder=tmp_path)
    assert stale_variables(env) == ["RAY_ADDRESS", "RAY_AUTH_TOKEN"]
    assert made["MINE"] == "y"
    assert made["M"] == "1"
    assert made["RAY_TMPDIR"] == str(tmp_path)
    assert (made["RAY_AUTH_MODE"], made["RAY_USAGE_STATS_ENABLED"]) == ("token", "0")
    assert "RAY_ADDRESS" not in made
    assert "RAY_AUTH_TOKEN" not in made
    assert 0.95 <= float(made["RAY_local_fs_capacity_threshold"]) < 1


def test_the_token_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = write_token(tmp_path, "ab" * 32)
    assert path.read_text() == "ab" * 32
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_machine_without_ray_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(MissingError, match="Ray is not installed"):
        starter_argv()


def spec(folder: Path, **more: object) -> NodeSpec:
    usual = NodeSpec(
        head=True, ip=own_addresses()[0], name="n", folder=str(folder), cpus=1, gpus=0, memory_bytes=4 << 30,
        store_bytes=100 << 20,
    )  # fmt: skip
    return msgspec.structs.replace(usual, **more)


@pytest.mark.integration
def test_a_node_comes_up_says_what_it_has_and_goes_down(folder: Path) -> None:
    pytest.importorskip("ray")
    ids = "GPU-aaaa1111,GPU-bbbb2222"
    base = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": ids}
    env = ray_environment(base, token_file=write_token(folder, "ab" * 32), mark="M=1", folder=folder)
    actors = (
        "import ray, os; ray.init(address=os.environ['A'])\n"
        "@ray.remote(num_gpus=1, num_cpus=0.5)\n"
        "class Actor:\n"
        "    def ids(self): return os.environ['CUDA_VISIBLE_DEVICES']\n"
        "two = [Actor.remote() for _ in range(2)]\n"
        "print(sorted(ray.get([one.ids.remote() for one in two])))\n"
    )

    async def work() -> None:
        with ray_node(env, folder) as node:
            up = await node.up(spec(folder, gpus=2, resources={"mine": 1.0}))
            (seen,) = await node.nodes()
            assert seen.alive
            assert (seen.name, seen.node_id) == ("n", up.node_id)
            assert (seen.resources["CPU"], seen.resources["GPU"], seen.resources["mine"]) == (1, 2, 1)
            node.check()
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", actors, env=env | {"A": up.address}, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            try:
                out, _ = await asyncio.wait_for(process.communicate(), 100)
            except TimeoutError:
                process.kill()
                out, _ = await process.communicate()
            assert out.decode().strip() == "['GPU-aaaa1111', 'GPU-bbbb2222']"
            await node.down()
            with pytest.raises(RayFailed, match=r"status 0"):
                node.check()

    asyncio.run(work())


@pytest.mark.integration
def test_a_head_that_is_not_there_is_told_with_rays_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    env = ray_environment({"PATH": os.environ["PATH"]}, token_file=folder / "no-token", mark="M=1", folder=folder)

    async def work() -> None:
        with ray_node(env, folder) as node:
            with pytest.raises(RayFailed) as caught:
                await node.up(spec(folder))
            assert "did not come up" in caught.value.what
            assert "gcs_server" in caught.value.tail

    asyncio.run(work())
    assert cluster.STARTER.endswith("start")
