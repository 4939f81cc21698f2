"""job-retry: how often a failed job begins again is said on purpose."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import NOTE, WARNING, finding_at, who
from orbit.launch.lint.programs import trains

ID = "job-retry"
TITLE = "how often a failed job begins again is said on purpose"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """RayJob and Job."""
    for workload in manifest.workloads:
        if workload.kind == "RayJob":
            yield from _ray_job(manifest, workload)
        elif workload.kind == "Job" and "backoffLimit" not in workload.settings and _trains(workload):
            message = "backoffLimit is not said: a run that fails begins anew six times, each from the start"
            fix = "write backoffLimit: 0, or a number that the run's checkpoints are made for"
            yield finding_at(ID, WARNING, manifest, workload.line, who(workload), message, fix)


def _trains(workload: Workload) -> bool:
    return any(item.gpus and trains(item) for pod in workload.pods for item in pod.containers)


def _ray_job(manifest: Manifest, workload: Workload) -> Iterator[Finding]:
    settings = workload.settings
    mode = settings["submissionMode"].text if "submissionMode" in settings else "K8sJobMode"
    if mode == "K8sJobMode" and "submitterBackoffLimit" not in settings:
        message = "submitterConfig.backoffLimit is not said: a submitter that loses its connection begins again, twice"
        yield finding_at(
            ID, NOTE, manifest, workload.line, who(workload), message, "write submitterConfig: {backoffLimit: 0}"
        )
    if "backoffLimit" not in settings:
        message = "backoffLimit is not said: whether a failed run gets a new cluster is left to the operator's default"
        yield finding_at(ID, NOTE, manifest, workload.line, who(workload), message, "write backoffLimit: 0")
    shutdown = settings.get("shutdownAfterJobFinishes")
    gpus = any(item.gpus for pod in workload.pods for item in pod.containers)
    if gpus and "clusterSelector" not in settings and (shutdown is None or shutdown.text != "true"):
        message = "shutdownAfterJobFinishes is not true: the cluster keeps its GPUs when the job is over"
        line = shutdown.line if shutdown else workload.line
        yield finding_at(ID, WARNING, manifest, line, who(workload), message, "write shutdownAfterJobFinishes: true")
