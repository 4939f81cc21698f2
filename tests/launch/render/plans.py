"""Plans for the tests of the renderers: one sound job on one sound site, with something changed."""

from __future__ import annotations

from typing import Any

from orbit.core.records import convert
from orbit.launch.job import Job
from orbit.launch.plan import LaunchPlan, make_plan
from orbit.launch.site.model import Site

DIGEST = "sha256:" + "ab" * 32
REPOSITORY = "registry.example.org/team/orbit"
RUNTIMES = {"docker": "docker", "kubernetes": "containerd", "htcondor": "apptainer", "slurm": "pyxis"}


def site(scheduler: str = "docker", **changed: Any) -> Site:
    """Nodes with eight GPUs, no shared folder, no scratch disk."""
    plain = {
        "schema": 1,
        "name": "here",
        "scheduler": scheduler,
        "nodes": {"gpus": 8, "gpu": "H100", "cpus": 96, "memory_gib": 1000, "most": 16},
        "image": {"runtime": RUNTIMES[scheduler], "repository": REPOSITORY},
    }
    return convert(plain | changed, Site, "site")


def job(**changed: Any) -> Job:
    """One node, no GPU."""
    return convert({"name": "demo", "image": DIGEST, "command": ["python3.12", "/data/train.py"]} | changed, Job, "job")


def plan(scheduler: str = "docker", *, of_site: dict[str, Any] | None = None, **of_job: Any) -> LaunchPlan:
    """The job on the site: ``of_site`` and ``of_job`` are what differs from the plain ones."""
    return make_plan(job(**of_job), site(scheduler, **(of_site or {})))
