"""A plain Kubernetes Job (``job``) and a DaemonSet that brings the image to the nodes (``prepull``).

The Job is indexed: its pods have numbers and, by a headless service, names; the node program does the rest, as under
every other scheduler.
"""

from __future__ import annotations

from typing import Any

from orbit.launch.plan import ENTRYPOINT, LaunchPlan
from orbit.launch.render import File
from orbit.launch.render.manifest import documents
from orbit.launch.render.pod import (
    check_pod,
    container,
    labels,
    marks,
    metadata,
    notes,
    owner_variable,
    placement,
    pod_spec,
    secret_name,
    variables,
)
from orbit.launch.render.words import LABEL_JOB, environment, node_argv, order_of

CONTAINER = "node"
KEEP_SECONDS = 86400
"""How long a Job and its logs stay after its end."""
INDEX = "JOB_COMPLETION_INDEX"
INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def render(plan: LaunchPlan, form: str) -> tuple[File, ...]:
    """One YAML file. Raises :class:`InputError` for what Kubernetes cannot be told."""
    check_pod(plan)
    if form == "prepull":
        comments = [
            f"Brings the image of job {plan.name} to every node that could run it, and keeps it there while this runs.",
            f"  kubectl -n {plan.site.kubernetes.namespace} rollout status daemonset/{prepull_name(plan)}",
        ]
        return (File(name=f"{plan.name}-prepull.yaml", text=documents([_prepull(plan)], comments)),)
    several = plan.job.nodes > 1
    objects = [_service(plan), _job(plan)] if several else [_job(plan)]
    return (File(name=f"{plan.name}.yaml", text=documents(objects, heading(plan, owner=several))),)


def heading(plan: LaunchPlan, *, owner: bool) -> list[str]:
    """On top of a manifest: whose it is, and which secret it needs."""
    said = [f"Job {plan.name}: the fields, with their reasons, are in docs/launch-kubernetes.md."]
    if owner or plan.job.secrets:
        said.append(
            f"`orbit launch submit` makes the secret {secret_name(plan)} it names; by hand: docs/launch-kubernetes.md."
        )
    return said + notes(plan)


def prepull_name(plan: LaunchPlan) -> str:
    """Of the DaemonSet."""
    return f"{plan.name}-prepull"


def head_name(plan: LaunchPlan) -> str:
    """The name of the first node inside the cluster: pod 0 of the Job, by the headless service."""
    kubernetes = plan.site.kubernetes
    return f"{plan.name}-0.{plan.name}.{kubernetes.namespace}.svc.{plan.site.network.cluster_domain}"


def _service(plan: LaunchPlan) -> dict[str, Any]:
    """Without an address of its own: a name for each pod, also before it is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(plan),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {LABEL_JOB: plan.name},
        },
    }


def _job(plan: LaunchPlan) -> dict[str, Any]:
    nodes = plan.job.nodes
    made = metadata(plan)
    if queue := plan.site.kubernetes.queue:
        made["labels"][QUEUE_LABEL] = queue
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": made,
        "spec": {
            "completionMode": "Indexed",
            "completions": nodes,
            "parallelism": nodes,
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": _rules()},
            "ttlSecondsAfterFinished": KEEP_SECONDS,
            "template": _template(plan),
        },
    }


def _rules() -> list[dict[str, Any]]:
    """A node that fails ends the job at once, and its exit status stands in the Job; so does one that is taken away:

    a new pod in its place could not join what runs already.
    """
    return [
        {"action": "FailJob", "onExitCodes": {"containerName": CONTAINER, "operator": "NotIn", "values": [0]}},
        {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]


def _template(plan: LaunchPlan) -> dict[str, Any]:
    job = plan.job
    several = job.nodes > 1
    if several:
        head = head_name(plan)
        order = order_of(plan, rank=f"env:{INDEX}", meet=f"tcp:{head}")
        domain = f".{plan.site.network.cluster_domain}"
        values = environment(plan, near=(head, domain, ".svc")) | owner_variable()
        fields = {INDEX: INDEX_FIELD}
    else:
        order, values, fields = order_of(plan), environment(plan), {}
    main = container(plan, CONTAINER, node_argv(order), variables(plan, values, fields))
    spec = pod_spec(plan, main, owner=several, apart={"labelSelector": {"matchLabels": {LABEL_JOB: plan.name}}})
    # of each pod, from the moment a machine takes it: waiting for a machine does not count, pulling the image does
    deadline = {"activeDeadlineSeconds": (job.minutes + job.late_minutes) * 60}
    name = {"subdomain": plan.name} if several else {}
    return {
        "metadata": {"labels": labels(plan), "annotations": marks(plan)},
        "spec": {**name, **deadline, **spec},
    }


def _prepull(plan: LaunchPlan) -> dict[str, Any]:
    name = prepull_name(plan)
    own = {LABEL_JOB: name, "app.kubernetes.io/managed-by": "orbit"}
    small = {"cpu": "10m", "memory": "64Mi"}
    made = metadata(plan, name) | {"labels": own}
    spec = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        **placement(plan),
        "containers": [
            {
                "name": "image",
                "image": plan.image,
                "imagePullPolicy": "IfNotPresent",
                "command": [ENTRYPOINT],
                "args": ["sleep", "infinity"],
                "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
                "resources": {"requests": small, "limits": dict(small)},
                "securityContext": {"allowPrivilegeEscalation": False},
            }
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": made,
        "spec": {
            "selector": {"matchLabels": {LABEL_JOB: name}},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
            "template": {"metadata": {"labels": own}, "spec": spec},
        },
    }
