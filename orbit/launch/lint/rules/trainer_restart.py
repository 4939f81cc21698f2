"""trainer-restart: nothing starts a trainer again from the beginning without being asked to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orbit.core.findings import Finding, Severity
from orbit.launch.lint.facts import Manifest, Pod, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import NOTE, WARNING, finding_at, who, working
from orbit.launch.lint.programs import trains

ID = "trainer-restart"
TITLE = "nothing starts a trainer again from the beginning without being asked to"
RESUMES = re.compile(r"resume|load[-_.]?(dir|path|from)?\b|--load|ckpt|checkpoint|auto[-_]?restart", re.IGNORECASE)
ENDLESS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController")


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Trainers whose words say nothing of a checkpoint, under a policy that restarts."""
    for workload, pod, container in working(manifest):
        if workload.is_ray or not trains(container) or any(RESUMES.search(word.text) for word in container.words):
            continue
        found = _judged(manifest, workload, pod)
        if found is not None:
            severity, line, message = found
            fix = "use a Job (restartPolicy: Never), or let the command resume from its checkpoint"
            if manifest.form != "kubernetes":
                fix = "remove it, or let the command resume from its checkpoint"
            yield finding_at(
                ID, severity, manifest, line or container.line, who(workload, pod, container), message, fix
            )


def _judged(manifest: Manifest, workload: Workload, pod: Pod) -> tuple[Severity, int, str] | None:
    policy = pod.restart.text if pod.restart is not None else ""
    line = pod.restart.line if pod.restart is not None else 0
    if workload.kind in ENDLESS:
        return (
            WARNING,
            workload.line,
            f"a {workload.kind} starts the trainer again whenever it ends, also when it is done",
        )
    if workload.kind == "Pod" and policy in ("", "Always"):
        return WARNING, line, "restartPolicy is Always: the trainer begins anew whenever it ends, also when it is done"
    if manifest.form in ("compose", "shell"):
        if policy.startswith(("always", "unless-stopped", "any")):
            return WARNING, line, f"restart is {policy}: the trainer begins anew whenever it ends, also when it is done"
        return None
    if policy in ("OnFailure", "Always", "ExitCode"):
        return NOTE, line, f"restartPolicy is {policy}: a rank that fails begins anew in its container, from the start"
    return None
