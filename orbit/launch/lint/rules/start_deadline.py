"""start-deadline: a limit on starting is longer than pulling the image takes."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.amounts import whole
from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import WARNING, finding_at, who

ID = "start-deadline"
TITLE = "a limit on starting is longer than pulling a large image takes"
LEAST_S = 600
KEYS = ("activeDeadlineSeconds", "progressDeadlineSeconds")


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Deadlines of workloads with GPUs."""
    for workload in manifest.workloads:
        if not any(container.gpus for pod in workload.pods for container in pod.containers):
            continue
        for key in KEYS:
            word = workload.settings.get(key)
            seconds = whole(word.text) if word is not None else None
            if word is not None and seconds is not None and seconds < LEAST_S:
                message = f"{key} is {seconds}: the first pull of an image of some GB takes longer, and begins anew"
                fix = f"at least {LEAST_S}, or a job that pulls the image to every node before"
                yield finding_at(ID, WARNING, manifest, word.line, who(workload), message, fix)
