"""A pod with one node of a job, the same for a plain Job and for KubeRay. Why each field: docs/launch-kubernetes.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orbit.errors import InputError
from orbit.launch.plan import OWNER_VARIABLE, LaunchPlan
from orbit.launch.render.manifest import dollars
from orbit.launch.render.words import (
    LABEL_IDENTITY,
    LABEL_IMAGE,
    LABEL_JOB,
    OWNER_FILE,
    USER,
    host_path,
    uses_rdma,
)

OWNER_KEY = "owner"
"""Of the secret: the owner token."""
TMP_GIB = 4
"""Of /tmp where scratch lies elsewhere."""
LOGS_GIB = 4
"""Disk for what containers print; it counts against the same limit."""
GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""Set by who gives GPUs to a container; another value shows GPUs of other jobs, or none."""
INFINIBAND = "/dev/infiniband"


def secret_name(plan: LaunchPlan) -> str:
    """Of the secret that ``orbit launch submit`` makes: owner token and the job's secrets."""
    return f"{plan.name}-orbit"


def labels(plan: LaunchPlan) -> dict[str, str]:
    """Of every object of a job; they select its pods."""
    return {LABEL_JOB: plan.name, "app.kubernetes.io/managed-by": "orbit"}


def marks(plan: LaunchPlan) -> dict[str, str]:
    """Longer than a label may be (63 characters)."""
    return {LABEL_IDENTITY: plan.identity, LABEL_IMAGE: plan.job.digest}


def metadata(plan: LaunchPlan, name: str = "") -> dict[str, Any]:
    """Of an object of this job."""
    namespace = plan.site.kubernetes.namespace
    return {
        "name": name or plan.name,
        "namespace": namespace,
        "labels": labels(plan),
        "annotations": marks(plan),
    }


def check_pod(plan: LaunchPlan) -> None:
    """Raise :class:`InputError` for what Kubernetes cannot be told."""
    site = plan.site
    if not plan.name[0].isalpha():
        raise InputError(
            f"launch.name = {plan.name!r} begins with a digit, and a Kubernetes service must not (RFC 1035)",
            fix="a name that begins with a letter",
        )
    if site.image.form != "registry":
        raise InputError(
            f"site {site.name}: image.form = {site.image.form!r}, and Kubernetes pulls from registries",
            fix="image.form = 'registry' with image.repository",
        )
    if site.user.policy == "caller":
        raise InputError(
            f"site {site.name}: user.policy = 'caller', and a cluster does not know the submitting user",
            fix="user.policy = 'fixed' with uid and gid, 'image', or 'any' where the cluster decides (OpenShift)",
        )
    for mount in plan.mounts:
        if USER in mount.host:
            raise InputError(
                f"mount.host = {mount.host!r}: no shell of the submitting user fills in {USER} on a cluster's node",
                fix="write the path itself",
            )
    check_gpu_variables(plan)
    wanted = "required" in (site.network.rdma, plan.job.rdma) and uses_rdma(plan)
    if wanted and not site.kubernetes.rdma_resource and not host_path(plan, INFINIBAND):
        raise InputError(
            f"RDMA is required, and site {site.name} has no way to bring {INFINIBAND} into a pod",
            fix="kubernetes.rdma_resource = 'rdma/hca' (what the device plugin of the cluster calls it)",
        )


def check_gpu_variables(plan: LaunchPlan) -> None:
    """Raise :class:`InputError` where recipe or site set what whoever gives the GPUs sets."""
    for name in GPU_VARIABLES:
        if name in plan.environment:
            raise InputError(
                f"environment: {name} is set by who gives the GPUs; another value shows GPUs of other jobs, or none",
                fix="remove it; gpus_per_node says how many there are",
            )


def resources(plan: LaunchPlan) -> dict[str, Any]:
    """Requests and limits alike: nothing is overcommitted, and what a program sees is what it may have."""
    amounts: dict[str, str] = {"cpu": str(plan.cpus), "memory": f"{plan.memory_gib}Gi"}
    disk = TMP_GIB + LOGS_GIB + (0 if _scratch_on_host(plan) else plan.job.scratch_gib)
    amounts["ephemeral-storage"] = f"{disk}Gi"
    kubernetes = plan.site.kubernetes
    if plan.job.gpus_per_node:
        amounts[kubernetes.gpu_resource] = str(plan.job.gpus_per_node)
    if kubernetes.rdma_resource and uses_rdma(plan):
        amounts[kubernetes.rdma_resource] = "1"
    return {"requests": dict(amounts), "limits": dict(amounts)}


def variables(
    plan: LaunchPlan, values: Mapping[str, str], fields: Mapping[str, str] | None = None, *, secrets: bool = True
) -> list[dict[str, Any]]:
    """``env`` of a container: ``values`` as they are, ``fields`` from the pod, the job's secrets from the secret.

    A container without GPUs gets none from a runtime that gives all to who does not ask (the image says ``all``).
    """
    void = {} if plan.job.gpus_per_node else {"NVIDIA_VISIBLE_DEVICES": "void"}
    said: list[dict[str, Any]] = [
        {"name": name, "value": dollars(value)} for name, value in sorted({**values, **void}.items())
    ]
    said += [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in sorted((fields or {}).items())
    ]
    for name in plan.job.secrets if secrets else ():
        said.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret_name(plan), "key": name}}})
    return said


def container(plan: LaunchPlan, name: str, argv: Iterable[str], env: list[dict[str, Any]]) -> dict[str, Any]:
    """A container of the image; the first word of ``argv`` is the image's entry point, which is never left out."""
    first, *rest = argv
    made: dict[str, Any] = {
        "name": name,
        "image": plan.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [first],
        "args": [dollars(word) for word in rest],
    }
    if plan.job.folder:
        made["workingDir"] = plan.job.folder
    made |= {"env": env, "resources": resources(plan), "securityContext": _container_security(plan)}
    return made


def pod_spec(plan: LaunchPlan, main: dict[str, Any], *, owner: bool, apart: dict[str, Any] | None) -> dict[str, Any]:
    """The spec of a pod around ``main``. ``owner``: whether the token is mounted; ``apart``: the label selector of pods
    that must not be on the same machine, with host networking.
    """
    site, kubernetes = plan.site, plan.site.kubernetes
    volumes, mounts = storage(plan, owner=owner)
    spec: dict[str, Any] = {"restartPolicy": "Never", "automountServiceAccountToken": False}
    # variables named after services (RAY_PORT=tcp://...) would be taken for settings
    spec["enableServiceLinks"] = False
    spec["terminationGracePeriodSeconds"] = plan.job.grace_seconds
    if kubernetes.service_account:
        spec["serviceAccountName"] = kubernetes.service_account
    spec |= placement(plan)
    if kubernetes.runtime_class and plan.job.gpus_per_node:
        spec["runtimeClassName"] = kubernetes.runtime_class
    if site.network.host_network:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
        if apart:
            term = {**apart, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if security := _pod_security(plan):
        spec["securityContext"] = security
    spec["containers"] = [{**main, "volumeMounts": mounts}]
    spec["volumes"] = volumes
    return spec


def placement(plan: LaunchPlan) -> dict[str, Any]:
    """Which nodes, and how they get the image."""
    site, kubernetes = plan.site, plan.site.kubernetes
    said: dict[str, Any] = {}
    if site.image.pull_secret:
        said["imagePullSecrets"] = [{"name": site.image.pull_secret}]
    if kubernetes.node_selector:
        said["nodeSelector"] = dict(sorted(kubernetes.node_selector.items()))
    if kubernetes.tolerations:
        said["tolerations"] = [{"key": key, "operator": "Exists"} for key in kubernetes.tolerations]
    return said


def storage(plan: LaunchPlan, *, owner: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Volumes of a pod, and where a container has them."""
    scratch = plan.site.storage.scratch.rstrip("/")
    made: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def add(name: str, source: dict[str, Any], path: str, **more: Any) -> None:
        made.append(({"name": name, **source}, {"name": name, "mountPath": path, **more}))

    add("shm", {"emptyDir": {"medium": "Memory", "sizeLimit": f"{plan.shm_gib}Gi"}}, "/dev/shm")  # noqa: S108
    if _scratch_on_host(plan):
        if not host_path(plan, scratch):
            add("scratch", {"hostPath": {"path": scratch, "type": "Directory"}}, scratch)
    else:
        size = {"sizeLimit": f"{plan.job.scratch_gib}Gi"} if plan.job.scratch_gib else {}
        add("scratch", {"emptyDir": size}, scratch or "/tmp")  # noqa: S108
    if scratch:
        add("tmp", {"emptyDir": {"sizeLimit": f"{TMP_GIB}Gi"}}, "/tmp")  # noqa: S108
    for number, mount in enumerate(plan.mounts):
        read_only = {"readOnly": True} if mount.read_only else {}
        add(f"mount-{number}", {"hostPath": {"path": mount.host, "type": "Directory"}}, mount.container, **read_only)
    if owner:
        # with a fixed user its group may read it (fsGroup); else whoever the container is, and nobody else is in it
        mode = 0o440 if plan.site.user.policy == "fixed" else 0o444
        items = [{"key": OWNER_KEY, "path": OWNER_FILE.rpartition("/")[2]}]
        source = {"secret": {"secretName": secret_name(plan), "defaultMode": mode, "items": items}}
        add("owner", source, OWNER_FILE.rpartition("/")[0], readOnly=True)
    return [volume for volume, _ in made], [mount for _, mount in made]


def owner_variable() -> dict[str, str]:
    """Where the node program finds the token."""
    return {OWNER_VARIABLE: OWNER_FILE}


def notes(plan: LaunchPlan) -> list[str]:
    """What a manifest cannot say, as comments on top of it."""
    said = []
    if uses_rdma(plan) and plan.site.limits.memlock != "unlimited" and not _root(plan):
        said.append(
            "Locked memory (RDMA): a pod has no field for it, and IPC_LOCK does nothing for a user that is not root;"
        )
        said.append("LimitMEMLOCK=infinity belongs to the container runtime of the nodes.")
    return said


def _scratch_on_host(plan: LaunchPlan) -> bool:
    if plan.site.kubernetes.scratch != "hostpath":
        return False
    if not plan.site.storage.scratch:
        raise InputError(
            f"site {plan.site.name}: kubernetes.scratch = 'hostpath' without storage.scratch",
            fix="name the folder in storage.scratch",
        )
    return True


def _root(plan: LaunchPlan) -> bool:
    return plan.site.user.policy == "fixed" and plan.site.user.uid == 0


def _pod_security(plan: LaunchPlan) -> dict[str, Any]:
    user = plan.site.user
    if user.policy != "fixed":
        return {}
    return {
        "runAsUser": user.uid,
        "runAsGroup": user.gid,
        "runAsNonRoot": user.uid != 0,
        "fsGroup": user.gid,
        "fsGroupChangePolicy": "OnRootMismatch",
    }


def _container_security(plan: LaunchPlan) -> dict[str, Any]:
    said: dict[str, Any] = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
    if _root(plan):
        if uses_rdma(plan) and plan.site.limits.memlock != "unlimited":
            said["capabilities"] = {"add": ["IPC_LOCK"]}
    elif plan.site.user.policy != "image":
        said["capabilities"] = {"drop": ["ALL"]}
    return said
