"""Kubernetes YAML: the pods of whatever makes pods, in every document of a file."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.launch.lint.amounts import whole
from orbit.launch.lint.facts import Flaw, Pod, Role, Workload
from orbit.launch.lint.read.pods import pod_of
from orbit.launch.lint.read.tree import Node

MOST_WORKLOADS = 10_000
TEMPLATED = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job")
RAY: dict[str, tuple[str, ...]] = {"RayCluster": (), "RayJob": ("rayClusterSpec",), "RayService": ("rayClusterConfig",)}
"""Kind -> where the description of the cluster stands below ``spec``."""
SETTINGS = {
    "backoffLimit": ("backoffLimit",),
    "activeDeadlineSeconds": ("activeDeadlineSeconds",),
    "completions": ("completions",),
    "parallelism": ("parallelism",),
    "progressDeadlineSeconds": ("progressDeadlineSeconds",),
    "entrypoint": ("entrypoint",),
    "submissionMode": ("submissionMode",),
    "shutdownAfterJobFinishes": ("shutdownAfterJobFinishes",),
    "submitterBackoffLimit": ("submitterConfig", "backoffLimit"),
    "maxRestarts": ("failurePolicy", "maxRestarts"),
    "runPolicyBackoffLimit": ("runPolicy", "backoffLimit"),
    "nprocPerNode": ("nprocPerNode",),
    "slotsPerWorker": ("slotsPerWorker",),
    "clusterSelector": ("clusterSelector",),
    "enableInTreeAutoscaling": ("enableInTreeAutoscaling",),
}
"""Name in :class:`Workload` -> where it stands below ``spec``."""


def read_kubernetes(documents: list[Node]) -> tuple[tuple[Workload, ...], list[Flaw]]:
    """The workloads of all documents. Kinds that make no pods are not in it."""
    found: list[Workload] = []
    for document in documents:
        for item in _items(document):
            found += _workload(item)
            if len(found) > MOST_WORKLOADS:
                flaw = Flaw("unreadable-manifest", f"more than {MOST_WORKLOADS:,} workloads in one file", 0)
                return tuple(found[:MOST_WORKLOADS]), [flaw]
    return tuple(found), []


def _items(node: Node) -> Iterator[Node]:
    """A document, or what is in it when it is a list (``kubectl get -o yaml``, or a bare YAML list)."""
    children = node.items
    if node.says("kind").endswith("List"):
        children = node.at("items").items
    if not children:
        yield node
    for child in children:
        yield from _items(child)


def _workload(node: Node) -> Iterator[Workload]:
    kind = node.says("kind")
    spec = node.at("spec")
    if kind.endswith("CronJob"):
        kind, spec = kind.replace("CronJob", "Job"), spec.at("jobTemplate", "spec") or spec.at("jobTemplate")
    pods = tuple(_pods(kind, node, spec))
    if not pods and kind not in RAY:
        return
    settings = {name: word for name, path in SETTINGS.items() if (word := spec.word(*path)) is not None}
    if kind in RAY and (word := spec.word(*RAY[kind], "rayVersion")) is not None:
        settings["rayVersion"] = word
    overwrite = node.at("metadata", "annotations").word("ray.io/overwrite-container-cmd")
    if overwrite is not None:
        settings["overwrite-container-cmd"] = overwrite
    metadata = node.at("metadata")
    name = metadata.says("name") or metadata.says("generateName") or "unnamed"
    entry = spec.word("entrypoint")
    yield Workload(
        kind=kind,
        name=name,
        line=node.line,
        pods=pods,
        settings=settings,
        script=(entry,) if entry is not None and kind == "RayJob" else (),
    )


def _pods(kind: str, node: Node, spec: Node) -> Iterator[Pod]:
    if kind in RAY:
        yield from _ray_pods(spec.at(*RAY[kind]))
        submitter = spec.at("submitterPodTemplate")
        if submitter:
            yield pod_of("submitter", submitter, role="submitter", count=1)
    elif kind == "Pod":
        yield pod_of("pod", node, role="main", count=1)
    elif kind in TEMPLATED and spec.at("template"):
        yield pod_of("pod", spec.at("template"), role="main", count=_count(spec, kind))
    elif kind == "Job" and spec.at("tasks"):  # Volcano
        for task in spec.at("tasks").items:
            yield pod_of(task.says("name") or "task", task.at("template"), role="main", count=_number(task, "replicas"))
    elif kind == "JobSet":
        yield from _job_set(spec)
    elif kind == "LeaderWorkerSet":
        yield from _leader_worker(spec)
    else:
        yield from _replica_specs(spec)


def _ray_pods(cluster: Node) -> Iterator[Pod]:
    head = cluster.at("headGroupSpec")
    if head:
        yield pod_of("head", head.at("template"), role="head", count=1, params=head.at("rayStartParams"), operator=True)
    for number, group in enumerate(cluster.at("workerGroupSpecs").items, 1):
        name = group.says("groupName") or f"workers-{number}"
        most = max(_number(group, "replicas"), _number(group, "maxReplicas", 0))
        count = most * _number(group, "numOfHosts")
        params = group.at("rayStartParams")
        yield pod_of(name, group.at("template"), role="worker", count=count, params=params, operator=True)


def _job_set(spec: Node) -> Iterator[Pod]:
    for job in spec.at("replicatedJobs").items:
        inner = job.at("template", "spec")
        count = _number(job, "replicas") * _count(inner, "Job")
        yield pod_of(job.says("name") or "job", inner.at("template"), role="main", count=count)


def _leader_worker(spec: Node) -> Iterator[Pod]:
    template = spec.at("leaderWorkerTemplate")
    size = _number(template, "size")
    if leader := template.at("leaderTemplate"):
        yield pod_of("leader", leader, role="main", count=_number(spec, "replicas"))
        size -= 1
    yield pod_of("worker", template.at("workerTemplate"), role="main", count=max(size, 1) * _number(spec, "replicas"))


def _replica_specs(spec: Node) -> Iterator[Pod]:
    """Kubeflow's jobs: ``pytorchReplicaSpecs``, ``mpiReplicaSpecs``, ..."""
    for key, replicas in spec.entries.items():
        if not key.endswith("ReplicaSpecs"):
            continue
        for name, replica in replicas.entries.items():
            role: Role = "submitter" if name == "Launcher" else "main"
            pod = replica.at("template")
            if pod:
                yield pod_of(name.lower(), pod, role=role, count=_number(replica, "replicas"), restart=replica)


def _count(spec: Node, kind: str) -> int:
    if kind == "Job":
        return max(_number(spec, "completions", 1), _number(spec, "parallelism", 1)) if spec else 1
    return 2 if kind == "DaemonSet" else _number(spec, "replicas")


def _number(node: Node, key: str, default: int = 1) -> int:
    text = node.says(key)
    found = whole(text) if text else default
    return default if found is None else found
