"""The facts: what the types say of themselves."""

from __future__ import annotations

from orbit.launch.lint.read.manifest import read_manifest
from tests.launch.lint.sound import JOB, RAY_JOB


def test_every_container_has_its_place() -> None:
    manifest = read_manifest(RAY_JOB.encode(), "a.yaml")
    assert [(w.kind, pod.name, pod.count, item.name) for w, pod, item in manifest.seats()] == [
        ("RayJob", "head", 1, "ray"),
        ("RayJob", "workers", 3, "ray"),
    ]
    assert manifest.workloads[0].is_ray


def test_a_variable_by_its_name() -> None:
    ((_workload, _pod, container),) = read_manifest(JOB.encode(), "a.yaml").seats()
    mode = container.variable("MODE")
    assert mode is not None
    assert (mode.value, mode.line) == ("1", 16)
    token = container.variable("HF_TOKEN")
    assert token is not None
    assert token.value is None
    assert container.variable("OTHER") is None
    assert [word.text for word in container.words] == ["torchrun", "--nproc-per-node", "8", "train.py"]
