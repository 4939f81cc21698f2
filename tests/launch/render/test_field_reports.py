"""What has gone wrong on clusters, asked of every rendered file there is: all golden files, whatever the scheduler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.launch.render.golden import FOLDER

CASES = sorted(path for path in FOLDER.iterdir() if path.is_dir())


def text_of(case: Path) -> str:
    """All files of a job, without comments."""
    text = "\n".join(path.read_text() for path in sorted(case.iterdir()))
    return re.sub(r"(?m)^ *#(?!SBATCH).*$", "", text)


def test_every_scheduler_is_asked() -> None:
    assert {case.name.split("-")[0] for case in CASES} >= {"docker", "compose", "slurm", "kubernetes", "htcondor"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_nodes_run_one_image_by_its_digest_and_no_tag_is_named(case: Path) -> None:
    text = text_of(case)
    assert len(set(re.findall(r"sha256[:-]([0-9a-f]{64})", text)) | {""}) <= 2
    assert not re.search(r"/orbit:(?!sha256)[a-z0-9]|:latest", text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_is_said_that_only_a_node_can_know(case: Path) -> None:
    """Interfaces, visible devices, another cluster's address: written down they are wrong somewhere."""
    said = re.findall(
        r"\b(NCCL_SOCKET_IFNAME|GLOO_SOCKET_IFNAME|NCCL_IB_HCA|CUDA_VISIBLE_DEVICES|RAY_ADDRESS)\b", text_of(case)
    )
    assert said == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_hugepages_and_no_capability_that_is_inert(case: Path) -> None:
    assert not re.search(r"(?i)hugepages|IPC_LOCK", text_of(case))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name.startswith(("docker", "compose"))], ids=lambda c: c.name
)
def test_shared_memory_is_asked_for_where_the_default_is_64_megabytes(case: Path) -> None:
    text = text_of(case)
    containers = max(1, text.count("hostname: node-"))
    assert len(re.findall(r"--shm-size \d+g|shm_size: \d+g", text)) == containers
