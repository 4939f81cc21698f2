"""grace-period: a trainer has the time to save between SIGTERM and SIGKILL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest, Pod, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import NOTE, WARNING, finding_at, who
from orbit.launch.lint.programs import is_trainer, script_programs, trains

ID = "grace-period"
TITLE = "a trainer has the time to save between SIGTERM and SIGKILL"
LEAST_S = 30
DEFAULT_S = {"kubernetes": 30, "compose": 10, "shell": 10}
NAMES = {
    "kubernetes": "terminationGracePeriodSeconds: 120",
    "compose": "stop_grace_period: 2m",
    "shell": "--stop-timeout 120",
}
LENGTH = re.compile(r"^(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s?)?$")


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Pods with GPUs that train."""
    if manifest.form not in NAMES:
        return
    for workload in manifest.workloads:
        submitted = any(is_trainer(program) for program in script_programs(workload.script))
        for pod in workload.pods:
            if any(item.gpus for item in pod.containers) and (submitted or any(map(trains, pod.containers))):
                yield from _judged(manifest, workload, pod)


def _judged(manifest: Manifest, workload: Workload, pod: Pod) -> Iterator[Finding]:
    form = manifest.form or "kubernetes"
    fix = f"add {NAMES[form]}, or what the largest checkpoint needs"
    name = who(workload, pod, pod.containers[0])
    if pod.grace is None:
        message = (
            f"nothing is said of the time between SIGTERM and SIGKILL: {DEFAULT_S[form]} s to save what is not saved"
        )
        yield finding_at(ID, NOTE, manifest, pod.line, name, message, fix)
        return
    match = LENGTH.match(pod.grace.text)
    if match and pod.grace.text:
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        total = 3600 * hours + 60 * minutes + seconds
        if total < LEAST_S:
            message = f"{total} s between SIGTERM and SIGKILL: no checkpoint is written in that"
            yield finding_at(ID, WARNING, manifest, pod.grace.line, name, message, fix)
