"""The shipped sites at work: a job on each of them is rendered."""

from __future__ import annotations

import pytest

from orbit.core.records import convert
from orbit.launch.job import Job
from orbit.launch.plan import make_plan
from orbit.launch.render import render
from orbit.launch.site.model import load_site, site_names

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize("name", site_names())
def test_a_job_of_whole_nodes_is_rendered(name: str) -> None:
    site = load_site(name)
    for nodes in {1, min(2, site.nodes.most)}:
        plain = {
            "name": "demo", "image": DIGEST, "command": ["python3.12", "/data/train.py"], "nodes": nodes,
            "gpus_per_node": site.nodes.gpus, "shm_gib": site.limits.shm_gib or 16,
        }  # fmt: skip
        first = render(make_plan(convert(plain, Job, "job"), site))[0]
        assert DIGEST.partition(":")[2] in first.text
        assert all(mount.container in first.text for mount in site.storage.mounts)


def test_the_examples_name_no_real_place() -> None:
    for name in site_names():
        site = load_site(name)
        hosts = [site.image.repository, site.network.proxy]
        assert all("example.org" in each for each in hosts if each)
