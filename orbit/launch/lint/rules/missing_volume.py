"""missing-volume: what is mounted is there."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, finding_at, who

ID = "missing-volume"
CLAIMING = ("StatefulSet", "LeaderWorkerSet", "JobSet")
OPERATORS = ("ray-token", "ray-logs", "shared-mem", "autoscaler-logs")
"""Volumes that KubeRay adds to the pods of a cluster."""
TITLE = "every volume that is mounted is one of the pod's"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Mounts whose name is not in ``volumes``, where neither a claim of the workload nor an operator adds it."""
    if manifest.form != "kubernetes":
        return
    for workload, pod, container in manifest.seats():
        if workload.kind in CLAIMING:
            continue
        for mount in container.mounts:
            if mount.volume is None and mount.name and not (workload.is_ray and mount.name in OPERATORS):
                message = f"mounts {mount.name!r}, which is none of the pod's volumes: Kubernetes refuses it"
                fix = "correct the name, or add the volume"
                yield finding_at(ID, ERROR, manifest, mount.line, who(workload, pod, container), message, fix)
