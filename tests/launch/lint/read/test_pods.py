# ruff: noqa: E501 - a case is one line
"""Pod templates."""

from __future__ import annotations

import pytest

from orbit.launch.lint.facts import SOME, Pod
from orbit.launch.lint.read.manifest import read_manifest


def pod(container: str = "", spec: str = "") -> Pod:
    text = f"apiVersion: v1\nkind: Pod\nspec:\n  {spec or 'x: y'}\n  containers:\n  - name: a\n    {container or 'image: x'}\n"
    return read_manifest(text.encode(), "a.yaml").workloads[0].pods[0]


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [("{limits: {nvidia.com/gpu: 8}}", 8), ("{requests: {nvidia.com/gpu: 2}}", 2), ("{limits: {nvidia.com/gpu: $N}}", SOME),
     ("{limits: {nvidia.com/mig-1g.10gb: 2, nvidia.com/gpu: 1}}", 3), ("{limits: {cpu: 8}}", 0), ("{limits: {amd.com/gpu: 1}}", 1)],
)  # fmt: skip
def test_gpus(resources: str, gpus: int) -> None:
    assert pod(f"resources: {resources}").containers[0].gpus == gpus


@pytest.mark.parametrize(
    ("volume", "kind", "size"),
    [("emptyDir: {medium: Memory, sizeLimit: 2Gi}", "sized", 2 << 30), ("emptyDir: {medium: Memory}", "memory", 0),
     ("emptyDir: {}", "disk", 0), ("hostPath: {path: /dev/shm}", "host", 0), ("nfs: {server: a, path: /b}", "other", 0)],
)  # fmt: skip
def test_shared_memory(volume: str, kind: str, size: int) -> None:
    (item,) = pod("volumeMounts: [{name: s, mountPath: /dev/shm/}]", f"volumes: [{{name: s, {volume}}}]").containers
    assert (item.shm.kind, item.shm.size) == (kind, size)


def test_shared_memory_of_the_host() -> None:
    assert pod(spec="hostIPC: true").containers[0].shm.kind == "host"
    assert pod().containers[0].shm.kind == "default"


def test_users() -> None:
    assert pod("securityContext: {runAsUser: 5}", "securityContext: {runAsUser: 7}").containers[0].uid == 5
    assert pod(spec="securityContext: {runAsUser: 7, runAsNonRoot: true}").containers[0].non_root


@pytest.mark.parametrize(
    ("spec", "apart"),
    [
        ("affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]}}", True),
        ("affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}", False),
        ("affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}", False),
        ("topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}]", True),
        ("topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}]", False),
    ],
)  # fmt: skip
def test_apart(spec: str, apart: bool) -> None:
    assert pod(spec=spec).apart is apart
