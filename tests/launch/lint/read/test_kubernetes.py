# ruff: noqa: E501 - a case is one line
"""Whatever makes pods in Kubernetes."""

from __future__ import annotations

import pytest

from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.read.manifest import read_manifest

POD = "{spec: {containers: [{name: a, image: x}]}}"


def read(text: str) -> Manifest:
    manifest = read_manifest(text.encode(), "a.yaml")
    assert manifest.form == "kubernetes"
    assert manifest.flaws == ()
    return manifest


@pytest.mark.parametrize(
    ("kind", "spec", "pods"),
    [
        ("Pod", "{containers: [{name: a, image: x}]}", [("pod", 1)]),
        ("Deployment", f"{{replicas: 3, template: {POD}}}", [("pod", 3)]),
        ("DaemonSet", f"{{template: {POD}}}", [("pod", 2)]),
        ("Job", f"{{completions: 4, parallelism: 2, template: {POD}}}", [("pod", 4)]),
        ("CronJob", f"{{jobTemplate: {{spec: {{template: {POD}}}}}}}", [("pod", 1)]),
        ("JobSet", f"{{replicatedJobs: [{{name: j, replicas: 2, template: {{spec: {{parallelism: 3, template: {POD}}}}}}}]}}", [("j", 6)]),
        ("Job", f"{{tasks: [{{name: t, replicas: 2, template: {POD}}}]}}", [("t", 2)]),
        ("LeaderWorkerSet", f"{{replicas: 2, leaderWorkerTemplate: {{size: 4, leaderTemplate: {POD}, workerTemplate: {POD}}}}}",
         [("leader", 2), ("worker", 6)]),
        ("PyTorchJob", f"{{pytorchReplicaSpecs: {{Master: {{template: {POD}}}, Worker: {{replicas: 3, template: {POD}}}}}}}",
         [("master", 1), ("worker", 3)]),
        ("MPIJob", f"{{mpiReplicaSpecs: {{Launcher: {{template: {POD}}}, Worker: {{replicas: 2, template: {POD}}}}}}}",
         [("launcher", 1), ("worker", 2)]),
        ("RayCluster", f"{{headGroupSpec: {{template: {POD}}}, workerGroupSpecs: [{{groupName: w, maxReplicas: 5, numOfHosts: 2, template: {POD}}}]}}",
         [("head", 1), ("w", 10)]),
        ("RayJob", f"{{rayClusterSpec: {{headGroupSpec: {{template: {POD}}}}}, submitterPodTemplate: {POD}}}", [("head", 1), ("submitter", 1)]),
        ("RayService", f"{{rayClusterConfig: {{headGroupSpec: {{template: {POD}}}}}}}", [("head", 1)]),
    ],
)  # fmt: skip
def test_kinds(kind: str, spec: str, pods: list[tuple[str, int]]) -> None:
    (workload,) = read(f"apiVersion: x/v1\nkind: {kind}\nmetadata: {{name: n}}\nspec: {spec}\n").workloads
    assert workload.kind == kind.replace("Cron", "")
    assert [(pod.name, pod.count) for pod in workload.pods] == pods
    assert all(pod.containers[0].image for pod in workload.pods)


def test_documents_and_lists() -> None:
    pod = "{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, image: x}]}}"
    text = f"---\napiVersion: v1\nkind: List\nitems:\n- {pod}\n- {pod}\n---\n{pod}\n---\n# nothing\n---\napiVersion: v1\nkind: Service\nspec: {{}}\n"
    assert len(read(text).workloads) == 3
    assert len(read(f"[{pod}, {pod}]").workloads) == 2
    assert len(read('{"apiVersion": "v1", "kind": "Pod",\n\t"spec": {"containers": [{"name": "a"}]}}').workloads) == 1


@pytest.mark.parametrize(
    "spec",
    ["1", "[1, 2]", "{containers: 3}", "{containers: [1, [2], {a: b}]}", "{containers: [{env: {a: b}, ports: 3, resources: x}]}",
     "{containers: [{name: [a], image: {b: c}, command: {d: e}, env: [1, {name: x, value: [2]}]}], volumes: [1, {}]}"],
)  # fmt: skip
def test_odd_shapes_are_no_crash(spec: str) -> None:
    assert len(read(f"apiVersion: v1\nkind: Pod\nspec: {spec}\n").workloads) == 1


def test_more_than_anybody_has() -> None:
    pod = "- {apiVersion: v1, kind: Pod, spec: {}}\n"
    manifest = read_manifest(("apiVersion: v1\nkind: List\nitems:\n" + pod * 10_001).encode(), "a.yaml")
    assert [flaw.rule for flaw in manifest.flaws] == ["unreadable-manifest"]
    assert len(manifest.workloads) == 10_000
