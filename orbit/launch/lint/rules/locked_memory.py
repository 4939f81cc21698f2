"""locked-memory: what lets a container lock memory for RDMA works for its user."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known, image_uid
from orbit.launch.lint.making import NOTE, WARNING, finding_at, who

ID = "locked-memory"
TITLE = "IPC_LOCK is given to a user it has an effect for"
NAMES = ("IPC_LOCK", "CAP_IPC_LOCK")


def check(manifest: Manifest, known: Known) -> Iterator[Finding]:
    """Containers that are given the capability."""
    for workload, pod, container in manifest.seats():
        word = next((word for word in container.added if word.text in NAMES), None)
        if word is None or "memlock" in container.options:
            continue
        uid = container.uid
        if uid is None and container.image is not None:
            uid = image_uid(known, container.image.text)
        name = who(workload, pod, container)
        if uid or (uid is None and container.non_root):
            user = f"uid {uid}" if uid else "a user that is not root"
            message = f"IPC_LOCK has no effect for {user}: capabilities are raised for root alone, memory stays limited"
            yield finding_at(ID, WARNING, manifest, word.line, name, message, _fix(manifest))
        elif uid is None:
            message = "IPC_LOCK has an effect only if the image's user is root, which is not known here"
            yield finding_at(ID, NOTE, manifest, word.line, name, message, _fix(manifest))


def _fix(manifest: Manifest) -> str:
    if manifest.form == "kubernetes":
        return "set LimitMEMLOCK=infinity where the node's container runtime is started, or run as uid 0"
    return "use --ulimit memlock=-1 (compose: ulimits: {memlock: -1}) instead"
