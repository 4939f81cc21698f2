"""memory-request: what a pod asks for is what it may use, where a file system in memory is counted against it."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import NOTE, WARNING, finding_at, memory_limit, size, who, working

ID = "memory-request"
TITLE = "memory is requested as it is limited, where /dev/shm counts against it"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Kubernetes: containers with a GPU, or with Ray."""
    if manifest.form != "kubernetes":
        return
    for workload, pod, container in working(manifest):
        if container.role == "submitter" or not (container.gpus or workload.is_ray):
            continue
        asked = memory_limit(manifest, container, "requests")
        limit = memory_limit(manifest, container)
        name = who(workload, pod, container)
        if limit is None and container.gpus:
            message = "there is no memory limit: /dev/shm and Ray's store are sized by the whole node's memory"
            fix = "set requests.memory and limits.memory to one value"
            yield finding_at(ID, NOTE, manifest, container.line, name, message, fix)
        elif limit is not None and asked is not None and asked != limit:
            line = container.requests["memory"].line
            what = (
                "KubeRay sizes /dev/shm by the one, Ray its object store by the other"
                if container.shm.kind == "operator"
                else ("pages of /dev/shm and caches between the two are evicted or killed when the node is short")
            )
            message = f"{size(asked)} of memory are requested and {size(limit)} allowed: {what}"
            yield finding_at(ID, WARNING, manifest, line, name, message, "set both to one value")
