"""A job on a site: decided once; what the site lacks is said."""

from __future__ import annotations

from typing import Any

import pytest

from orbit.core.records import convert
from orbit.errors import InputError
from orbit.launch.job import Job
from orbit.launch.plan import CANDIDATES, PORTS, make_plan, meeting_ports
from orbit.launch.site.model import Site

DIGEST = "sha256:" + "ab" * 32


def site(**changed: Any) -> Site:
    """Two nodes with eight GPUs each, with something changed."""
    plain = {
        "schema": 1,
        "name": "here",
        "scheduler": "slurm",
        "nodes": {"gpus": 8, "gpu": "H100", "cpus": 96, "memory_gib": 1000, "most": 2},
        "image": {"runtime": "pyxis", "repository": "registry.example.org/team/orbit"},
    }
    return convert(plain | changed, Site, "site")


def job(**changed: Any) -> Job:
    """A job of one node, with something changed."""
    return convert({"name": "demo", "image": DIGEST, "command": ["true"]} | changed, Job, "job")


def test_what_the_job_leaves_open_the_site_decides() -> None:
    plan = make_plan(job(), site(environment={"A": "site", "B": "site"}, limits={"shm_gib": 64}))
    assert (plan.cpus, plan.memory_gib, plan.shm_gib) == (96, 1000, 64)
    assert plan.image == f"registry.example.org/team/orbit@{DIGEST}"
    assert make_plan(job(environment={"B": "job"}), site(environment={"A": "site", "B": "site"})).environment == {
        "A": "site",
        "B": "job",
    }


def test_shared_memory_of_a_small_job_is_not_more_than_its_memory() -> None:
    generous = site(limits={"shm_gib": 128})
    assert make_plan(job(memory_gib=32), generous).shm_gib == 16
    assert make_plan(job(memory_gib=32, shm_gib=24), generous).shm_gib == 24
    assert make_plan(job(), generous).shm_gib == 128


def test_a_recipe_that_names_its_repository_keeps_it() -> None:
    assert make_plan(job(image=f"other.example.org/x@{DIGEST}"), site()).image == f"other.example.org/x@{DIGEST}"


def test_an_image_file_is_named_by_its_digest() -> None:
    source = {"runtime": "apptainer", "form": "sif", "path": "/images/"}
    assert make_plan(job(), site(image=source)).image == f"/images/{DIGEST.replace(':', '-')}.sif"
    source = {"runtime": "none", "form": "archive", "path": "/images"}
    assert make_plan(job(), site(image=source)).image == f"/images/{DIGEST.replace(':', '-')}.tar.zst"
    assert make_plan(job(), site(image=source | {"form": "prefix", "path": "/sw/orbit/"})).image == "/sw/orbit"
    with pytest.raises(InputError, match=r"without image\.path"):
        make_plan(job(), site(image={"runtime": "apptainer", "form": "sif"}))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"nodes": 3}, "launch.nodes = 3"),
        ({"gpus_per_node": 9}, "launch.gpus_per_node = 9"),
        ({"cpus_per_node": 97}, "launch.cpus_per_node = 97"),
        ({"memory_gib": 1001}, "launch.memory_gib = 1001"),
        ({"memory_gib": 8, "shm_gib": 9}, "launch.shm_gib = 9"),
        ({"rdma": "required"}, "launch.rdma = 'required'"),
    ],
)
def test_what_the_site_does_not_have_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        make_plan(job(**asked), site())
    assert said in str(caught.value)
    assert caught.value.fix


def test_an_image_without_a_repository_is_refused() -> None:
    with pytest.raises(InputError, match="names no repository"):
        make_plan(job(), site(image={"runtime": "docker"}))


def test_ports_follow_from_the_identity_alone() -> None:
    first = meeting_ports("a")
    assert first == meeting_ports("a") != meeting_ports("b")
    assert len(set(first)) == CANDIDATES
    assert all(port in PORTS for port in first)
    assert make_plan(job(), site()).ports == meeting_ports(make_plan(job(), site()).identity)
