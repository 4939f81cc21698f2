"""What the objects of a cluster say of a job: JSON in, a status out. Pure.

Fields and words are those of the Kubernetes API (batch/v1 Job, v1 Pod, apps/v1 DaemonSet) and of KubeRay 1.5 to 1.7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from orbit.launch.submit.model import CANCELLED_AT, JobRef, JobStatus, Phase

KINDS = {
    "job": "jobs.batch",
    "rayjob": "rayjobs.ray.io",
    "raycluster": "rayclusters.ray.io",
    "prepull": "daemonsets.apps",
}
"""Form -> resource, as kubectl spells it."""
SPEAKERS = {"job": "node", "rayjob": "submitter", "raycluster": "ray-head"}
"""Form -> the container whose log is the job's."""
INDEX = "batch.kubernetes.io/job-completion-index"
USUAL = ("ContainerCreating", "PodInitializing", "")
"""Reasons of a container that waits which say nothing."""
CODE = re.compile(r"exit code (\d+)")


class Seen:
    """One object, with ways to ask that never fail."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def at(self, *path: str) -> Any:
        """What is at ``path``; None where there is nothing."""
        found: Any = self.data
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def text(self, *path: str) -> str:
        """The text at ``path``; empty where there is none."""
        found = self.at(*path)
        return found if isinstance(found, str) else ""

    @property
    def name(self) -> str:
        """Of the object."""
        return self.text("metadata", "name")

    @property
    def is_pod(self) -> bool:
        """Whether it is one of the job's pods."""
        return self.text("kind") == "Pod"

    @property
    def stopping(self) -> bool:
        """Whether it is being deleted."""
        return bool(self.text("metadata", "deletionTimestamp"))

    def condition(self, kind: str, status: str = "True") -> dict[str, Any] | None:
        """The condition of a kind, where it has this status."""
        for each in self.at("status", "conditions") or ():
            if each.get("type") == kind and each.get("status") == status:
                found: dict[str, Any] = each
                return found
        return None

    def containers(self) -> Iterable[dict[str, Any]]:
        """State of each container of a pod, those that run first included."""
        yield from self.at("status", "initContainerStatuses") or ()
        yield from self.at("status", "containerStatuses") or ()


def read_state(ref: JobRef, seen: list[Seen]) -> JobStatus:
    """The status of the job in ``seen``: its object and its pods."""
    pods = sorted((each for each in seen if each.is_pod), key=_order)
    uid = ref.details.get("uid", "")
    jobs = [each for each in seen if not each.is_pod and uid in ("", each.text("metadata", "uid"))]
    nodes = tuple(dict.fromkeys(node for pod in pods if (node := pod.text("spec", "nodeName"))))
    if not jobs:
        if any(pod.at("status", "phase") not in ("Succeeded", "Failed") for pod in pods if _is_of(pod, uid)):
            return JobStatus(phase=Phase.STOPPING, state="deleted", message="its pods end", nodes=nodes)
        phase = Phase.CANCELLED if CANCELLED_AT in ref.details else Phase.GONE
        return JobStatus(phase=phase, state="not found", message="the cluster does not have it any more")
    job = jobs[0]
    phase, state, message, code = _READERS[ref.form](job, pods)
    if job.stopping and not phase.ended:
        phase, state = Phase.STOPPING, "deleted"
    if not message and phase in (Phase.WAITING, Phase.RUNNING):
        message = why_waiting(pods)
    return JobStatus(phase=phase, state=state, exit_code=code, message=message, nodes=nodes)


def speaker(ref: JobRef, seen: list[Seen]) -> tuple[str, str] | None:
    """Pod and container whose log is the job's, once it has one: the first node's; else one that failed."""
    wanted = SPEAKERS.get(ref.form, "")
    began = []
    for pod in sorted((each for each in seen if each.is_pod), key=_order):
        for container in pod.containers():
            state = container.get("state") or {}
            if container.get("name") == wanted and ("running" in state or "terminated" in state):
                began.append((pod, state))
    if not began:
        return None
    if ref.form == "rayjob":  # a submitter that was started again follows the same job
        return max((pod for pod, _ in began), key=lambda pod: pod.text("metadata", "creationTimestamp")).name, wanted
    first = [pod for pod, _ in began if _order(pod)[0] == 0]
    failed = [pod for pod, state in began if (state.get("terminated") or {}).get("exitCode")]
    chosen = [*first, *failed]
    return (chosen[0].name, wanted) if chosen else None


def why_waiting(pods: list[Seen]) -> str:
    """What keeps the pods from running, in the cluster's words: no room, an image that cannot be pulled, a volume."""
    running = sum(any("running" in (each.get("state") or {}) for each in pod.containers()) for pod in pods)
    for pod in pods:
        for container in pod.containers():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason", "") not in USUAL:
                return f"{pod.name}: {waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
        unscheduled = pod.condition("PodScheduled", "False")
        if unscheduled:
            return f"{pod.name}: {unscheduled.get('reason', '')}: {unscheduled.get('message', '')}".rstrip(": ")
    return f"{running} of {len(pods)} pods run" if pods and running < len(pods) else ""


def _is_of(pod: Seen, uid: str) -> bool:
    owners = pod.at("metadata", "ownerReferences") or ()
    return not uid or not owners or any(owner.get("uid") == uid for owner in owners)


def _order(pod: Seen) -> tuple[int, str]:
    """The first node first."""
    index = (pod.at("metadata", "annotations") or {}).get(INDEX, "")
    head = pod.text("metadata", "labels", "ray.io/node-type") == "head"
    return (int(index) if index.isdigit() else 0 if head else 1 << 30, pod.name)


def _code(pods: list[Seen], message: str) -> int | None:
    """How the job ended: the first node's status, else that of one that failed, else as the message says."""
    found = []
    for pod in pods:
        for container in pod.containers():
            ended = (container.get("state") or {}).get("terminated") or {}
            if "exitCode" in ended and container.get("name") == SPEAKERS["job"]:
                found.append((_order(pod)[0], int(ended["exitCode"])))
    if found and found[0][0] == 0 and (found[0][1] or not any(code for _, code in found)):
        return found[0][1]
    failed = [code for _, code in found if code]
    if failed:
        return failed[0]
    said = CODE.search(message)
    return int(said[1]) if said else None


def _job(job: Seen, pods: list[Seen]) -> tuple[Phase, str, str, int | None]:
    if job.condition("Complete"):
        return Phase.SUCCEEDED, "Complete", "", 0
    failed = job.condition("Failed")
    if failed:
        message = str(failed.get("message", ""))
        return Phase.FAILED, f"Failed ({failed.get('reason', '')})", message, _code(pods, message)
    if job.condition("FailureTarget") or job.condition("SuccessCriteriaMet"):
        return Phase.STOPPING, "ending", "", None
    if job.at("spec", "suspend"):
        return Phase.WAITING, "Suspended", "its queue lets it wait", None
    first = [pod for pod in pods if _order(pod)[0] == 0]
    runs = any("running" in (each.get("state") or {}) for pod in first for each in pod.containers())
    return (Phase.RUNNING, "Running", "", None) if runs else (Phase.WAITING, "Pending", "", None)


def _rayjob(job: Seen, _pods: list[Seen]) -> tuple[Phase, str, str, int | None]:
    deployment, status = job.text("status", "jobDeploymentStatus"), job.text("status", "jobStatus")
    reason, message = job.text("status", "reason"), job.text("status", "message")
    state = " ".join(filter(None, (deployment or "New", status, reason and f"({reason})")))
    said = CODE.search(message)
    code = int(said[1]) if said else None
    if status == "STOPPED":
        return Phase.CANCELLED, state, message, code
    if deployment in ("Failed", "ValidationFailed") or (deployment == "Complete" and status == "FAILED"):
        return Phase.FAILED, state, message, code
    if deployment == "Complete":
        return Phase.SUCCEEDED, state, "", 0
    if deployment == "Running":
        return Phase.RUNNING, state, "", None
    return Phase.WAITING, state, "its queue lets it wait" if job.at("spec", "suspend") else "", None


def _raycluster(job: Seen, _pods: list[Seen]) -> tuple[Phase, str, str, int | None]:
    state, reason = job.text("status", "state"), job.text("status", "reason")
    if state == "ready":
        return Phase.RUNNING, state, "", None
    if state == "failed":
        return Phase.FAILED, state, reason, None
    return Phase.WAITING, state or "New", reason, None


def _prepull(job: Seen, _pods: list[Seen]) -> tuple[Phase, str, str, int | None]:
    wanted, there = job.at("status", "desiredNumberScheduled") or 0, job.at("status", "numberReady") or 0
    state = f"{there} of {wanted} nodes have the image"
    seen = job.at("status", "observedGeneration") == job.at("metadata", "generation")
    if seen and wanted and there == wanted:
        return Phase.SUCCEEDED, state, "orbit launch cancel removes it", None
    return Phase.WAITING, state, "", None


_READERS = {"job": _job, "rayjob": _rayjob, "raycluster": _raycluster, "prepull": _prepull}
