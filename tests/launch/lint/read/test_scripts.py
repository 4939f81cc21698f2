# ruff: noqa: E501 - a case is one line
"""Batch scripts of Slurm."""

from __future__ import annotations

import pytest

from orbit.launch.lint.facts import SOME, Workload
from orbit.launch.lint.read.manifest import read_manifest


def workload(text: str) -> Workload:
    manifest = read_manifest(text.encode(), "a.sbatch")
    assert manifest.form == "slurm"
    return manifest.workloads[0]


def script(options: str, body: str = "srun hostname\n") -> str:
    return "#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in options.split("|")) + body


def test_options_end_with_the_first_command() -> None:
    found = workload(
        script("-N 2|--job-name=a b|-c8|--exclusive|--gres gpu:h100:8 # eight", "srun x\n#SBATCH --nodes=9\n")
    )
    assert {key: word.text for key, word in found.settings.items()} == {
        "nodes": "2", "job-name": "a", "cpus-per-task": "8", "exclusive": "", "gres": "gpu:h100:8",
    }  # fmt: skip
    assert found.settings["gres"].line == 6
    assert found.pods[0].count == 2


@pytest.mark.parametrize(
    ("options", "gpus"),
    [
        ("--gpus-per-node=8", 8),
        ("--gpus-per-node=h100:4", 4),
        ("--gres=gpu", 1),
        ("--gres=gpu:8", 8),
        ("--gres=lustre:1,gpu:a100:2", 2),
        ("--gpus=16|--nodes=2", 8),
        ("--gpus=7|--nodes=2", SOME),
        ("--gpus-per-task=1|--ntasks-per-node=8", 8),
        ("--gpus-per-task=1", SOME),
        ("--nodes=1", 0),
    ],
)
def test_gpus_of_a_node(options: str, gpus: int) -> None:
    assert workload(script(options)).pods[0].containers[0].gpus == gpus


def test_steps_and_their_containers() -> None:
    found = workload(
        script(
            "--nodes=1",
            "export A=1\nB=2 srun -N 1 --label --container-image=a/b:1 --container-mounts=/x:/y:ro,/z \\\n  torchrun t.py\n"
            "apptainer exec --nv --env C=3,D=4 --bind /q c.sif python t.py\nsrun singularity run d.sif\nhostname\n",
        )
    )
    _batch, *steps = found.pods[0].containers
    assert [step.image.text if step.image else None for step in steps] == ["a/b:1", "c.sif", "d.sif"]
    assert [word.text for word in steps[0].args] == ["torchrun", "t.py"]
    assert [(mount.path, mount.read_only) for mount in steps[0].mounts] == [("/y", True), ("/z", False)]
    assert {(env.name, env.value) for env in steps[0].env} == {("A", "1"), ("B", "2")}
    assert {env.name for env in steps[1].env} == {"A", "C", "D"}


def test_docker_in_a_batch_script() -> None:
    manifest = read_manifest(script("--nodes=1", "docker run x:1\n").encode(), "a.sbatch")
    assert [item.kind for item in manifest.workloads] == ["sbatch", "docker run"]
