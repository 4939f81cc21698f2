"""KubeRay's ``RayJob`` and ``RayCluster``: the operator starts Ray, the node program checks nodes and runs the command.

The facts are those of KubeRay 1.5.1 to 1.7.0 (its Go sources and CRDs); 1.5.1 is the first with token authentication.
"""

from __future__ import annotations

import shlex
from typing import Any

from orbit.core.paths import data_root
from orbit.errors import InputError
from orbit.launch.plan import ENTRYPOINT, LaunchPlan
from orbit.launch.ray.share import store_size
from orbit.launch.render import File
from orbit.launch.render.kubernetes import QUEUE_LABEL, heading
from orbit.launch.render.manifest import documents
from orbit.launch.render.pod import check_pod, container, labels, marks, metadata, pod_spec, storage, variables
from orbit.launch.render.words import LABEL_JOB, command_lines, environment, node_argv, order_of
from orbit.profile.lock import read_lock
from orbit.profile.model import load_profile, profile_names
from orbit.profile.place import lock_path

OVERWRITE = {"ray.io/overwrite-container-cmd": "true"}
"""Without it the operator replaces the command, and the entry point with it."""
START = "exec $KUBERAY_GEN_RAY_START_CMD"
"""The entry point has raised the limit of open files by then, as far as it may."""
SUBMITTER_RETRIES = 10
"""A submitter that starts again asks for the job first and only follows its log; one that gives up fails the job."""
PERSON = {"HOME": "/tmp", "USER": "orbit"}  # noqa: S108 - a folder of the container
"""For the containers that the operator starts past the entry point: `ray` asks for both."""
SCRIPT_FOLDER = "/run/orbit/job"
SCRIPT = "run.sh"
PORTS = (
    "port", "dashboard-port", "ray-client-server-port", "node-manager-port", "object-manager-port",
    "dashboard-agent-listen-port", "dashboard-agent-grpc-port", "runtime-env-agent-port", "metrics-export-port",
)  # fmt: skip
"""Options of ``ray start``; the first three of the head alone."""
HEAD_PORTS = PORTS[:3]
USUAL = {"port": 6379, "dashboard-port": 8265, "ray-client-server-port": 10001, "metrics-export-port": 8080}
"""Ray's and KubeRay's own, where a pod has its own network."""
PORT_NAMES = {
    "port": "gcs-server",
    "dashboard-port": "dashboard",
    "ray-client-server-port": "client",
    "metrics-export-port": "metrics",
}
"""What the operator looks for; the others get names of their own."""
BLOCK, FIRST, BLOCKS, WORKERS = 400, 21000, 20, 20
"""Host networking: one of so many blocks of so many ports; workers' processes begin so far into it."""


def render(plan: LaunchPlan, form: str) -> tuple[File, ...]:
    """One YAML file: the command as a ConfigMap, and the RayJob or RayCluster.

    Raises :class:`InputError` for what KubeRay cannot be told.
    """
    check_pod(plan)
    _check(plan)
    cluster = _cluster(plan)
    objects = [_script(plan), _job(plan, cluster) if form == "rayjob" else _object(plan, "RayCluster", cluster)]
    return (File(name=f"{plan.name}.yaml", text=documents(objects, heading(plan, owner=False))),)


def ray_version(plan: LaunchPlan) -> str:
    """Of the ray in the image: as the recipe says, else what the locks of all profiles say.

    Raises :class:`InputError` where they differ.
    """
    if plan.job.ray_version:
        return plan.job.ray_version
    locks = {lock_path(load_profile(name), data_root()) for name in profile_names()}
    found = {read_lock(path).package("ray").version for path in locks}
    if len(found) != 1:
        raise InputError(
            f"the profiles have different versions of ray ({', '.join(sorted(found))}), and KubeRay must know which",
            fix="launch.ray_version = '...' in the recipe: orbit image inspect shows what is in an image",
        )
    return found.pop()


def ports(plan: LaunchPlan) -> dict[str, int]:
    """Option of ``ray start`` -> port. With host networking all of them are fixed and lie in one block of the job's."""
    if not plan.site.network.host_network:
        return dict(USUAL)
    first = FIRST + BLOCK * (int(plan.identity[:8], 16) % BLOCKS)
    fixed = {name: first + number for number, name in enumerate(PORTS)}
    return fixed | {"min-worker-port": first + WORKERS, "max-worker-port": first + BLOCK - 1}


def _check(plan: LaunchPlan) -> None:
    job, site = plan.job, plan.site
    if not job.ray:
        raise InputError("launch.ray = false with KubeRay, which is Ray", fix="--form job")
    if job.unfit == "leave-out":
        raise InputError(
            "launch.unfit = 'leave-out' with KubeRay: its operator makes a new pod for each that fails, for ever",
            fix="--form job, or unfit = 'stop'",
        )
    if not site.kubernetes.kuberay:
        raise InputError(
            f"site {site.name}: kubernetes.kuberay = false: nothing there knows a RayJob",
            fix="--form job, or kubernetes.kuberay = true once the operator is there",
        )
    most = BLOCK - WORKERS - 20
    if site.network.host_network and plan.cpus > most:
        raise InputError(
            f"{plan.cpus} CPUs of a node with host networking: Ray wants a port for each, and {most} are set aside",
            fix="a smaller launch.cpus_per_node, or --form job",
        )


def _object(plan: LaunchPlan, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    made = metadata(plan)
    made["annotations"] |= OVERWRITE
    if queue := plan.site.kubernetes.queue:
        made["labels"][QUEUE_LABEL] = queue
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": made, "spec": spec}


def _job(plan: LaunchPlan, cluster: dict[str, Any]) -> dict[str, Any]:
    spec = {
        # the entrypoint goes through two shells on its way; this text means the same in each of them
        "entrypoint": f"sh {SCRIPT_FOLDER}/{SCRIPT}",
        "submissionMode": "K8sJobMode",
        "backoffLimit": 0,
        "submitterConfig": {"backoffLimit": SUBMITTER_RETRIES},
        "activeDeadlineSeconds": (plan.job.minutes + plan.job.late_minutes) * 60,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": 60,
        "submitterPodTemplate": _submitter(plan),
        "rayClusterSpec": cluster,
    }
    return _object(plan, "RayJob", spec)


def _submitter(plan: LaunchPlan) -> dict[str, Any]:
    """The same image; the operator sets command, address and token. It needs no GPU and keeps the job's output."""
    small = {"cpu": "1", "memory": "1Gi"}
    env = [{"name": name, "value": value} for name, value in PERSON.items()]
    pulled = {"imagePullSecrets": [{"name": plan.site.image.pull_secret}]} if plan.site.image.pull_secret else {}
    return {
        "metadata": {"labels": {LABEL_JOB: plan.name}, "annotations": marks(plan)},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            **pulled,
            "containers": [
                {
                    "name": "submitter",
                    "image": plan.image,
                    "imagePullPolicy": "IfNotPresent",
                    "env": [*env, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
                    "resources": {"requests": small, "limits": dict(small)},
                    "securityContext": {"allowPrivilegeEscalation": False},
                }
            ],
        },
    }


def _cluster(plan: LaunchPlan) -> dict[str, Any]:
    nodes = plan.job.nodes
    spec: dict[str, Any] = {
        "rayVersion": ray_version(plan),
        "enableInTreeAutoscaling": False,
        "authOptions": {"mode": "token"},
        "headGroupSpec": {"rayStartParams": _start(plan, head=True), "template": _template(plan, head=True)},
    }
    if nodes > 1:
        group = {
            "groupName": "workers",
            "replicas": nodes - 1,
            "minReplicas": nodes - 1,
            "maxReplicas": nodes - 1,
            "rayStartParams": _start(plan, head=False),
            "template": _template(plan, head=False),
        }
        spec["workerGroupSpecs"] = [group]
    return spec


def _start(plan: LaunchPlan, *, head: bool) -> dict[str, str]:
    said = {
        "num-cpus": str(plan.cpus),
        "num-gpus": str(plan.job.gpus_per_node),
        "object-store-memory": str(store_size(plan.shm_gib << 30, plan.memory_gib << 30)),
    }
    return said | {name: str(port) for name, port in ports(plan).items() if head or name not in HEAD_PORTS}


def _template(plan: LaunchPlan, *, head: bool) -> dict[str, Any]:
    values = PERSON | environment(plan, near=(f".{plan.site.network.cluster_domain}", ".svc"))
    main = container(plan, "ray-head" if head else "ray-worker", (ENTRYPOINT,), variables(plan, values))
    main["args"] = ["bash", "-c", START]
    listed = ports(plan)
    main["ports"] = [
        {"name": PORT_NAMES.get(name, f"p{number}"), "containerPort": port}
        for number, (name, port) in enumerate(listed.items())
        if not name.endswith("worker-port") and (head or name not in HEAD_PORTS)
    ]
    argv = (ENTRYPOINT, "orbit", "preflight", *demands(plan))
    check = container(plan, "preflight", argv, variables(plan, values, secrets=False))
    apart = {
        "labelSelector": {"matchExpressions": [{"key": "ray.io/node-type", "operator": "Exists"}]},
        "namespaceSelector": {},
    }
    spec = pod_spec(plan, main, owner=False, apart=apart)
    check["volumeMounts"] = storage(plan, owner=False)[1]
    if head:
        spec["containers"][0]["volumeMounts"].append({"name": "job", "mountPath": SCRIPT_FOLDER, "readOnly": True})
        spec["volumes"].append({"name": "job", "configMap": {"name": f"{plan.name}-orbit"}})
    spec = {"initContainers": [check], **spec}
    return {"metadata": {"labels": labels(plan), "annotations": {**marks(plan), **OVERWRITE}}, "spec": spec}


def demands(plan: LaunchPlan) -> tuple[str, ...]:
    """Options of ``orbit preflight``: what a node of this job must have."""
    order = order_of(plan)
    asked = {
        "--gpus": order.gpus,
        "--cpus": order.cpus,
        "--memory-gib": order.memory_gib,
        "--shm-gib": order.shm_gib,
        "--scratch-gib": order.scratch_gib,
    }
    said = [word for flag, value in asked.items() if value for word in (flag, str(value))]
    said += ["--image", order.image, "--rdma", order.rdma]
    return (*said, "--burn-in") if order.burn_in else tuple(said)


def _script(plan: LaunchPlan) -> dict[str, Any]:
    """What the entrypoint runs, as a file: no word of the command passes through a shell that could change it."""
    order = order_of(plan, join=f"127.0.0.1:{ports(plan)['port']}")
    folder = [f"cd {shlex.quote(plan.job.folder)}"] if plan.job.folder else []
    parts = " \\\n    ".join(command_lines(node_argv(order)))
    lines = ["set -eu", *folder, f"exec {parts}"]
    made = metadata(plan, f"{plan.name}-orbit")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": made, "data": {SCRIPT: "\n".join(lines) + "\n"}}
