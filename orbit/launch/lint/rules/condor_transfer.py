"""condor-transfer: what a job writes comes back, also when it is interrupted."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import NOTE, WARNING, finding_at, who
from orbit.launch.lint.programs import trains

ID = "condor-transfer"
TITLE = "what a job writes comes back, also when it is interrupted"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Submit files of jobs with a GPU or an image."""
    for workload, _pod, container in manifest.seats():
        if workload.kind != "submit" or not (container.gpus or container.image):
            continue
        yield from _judged(manifest, workload, training=trains(container))


def _judged(manifest: Manifest, workload: Workload, *, training: bool) -> Iterator[Finding]:
    settings, name = workload.settings, who(workload)
    transfer = settings.get("should_transfer_files")
    if transfer is None or transfer.text.upper() == "IF_NEEDED":
        line = transfer.line if transfer else workload.line
        message = "should_transfer_files is not YES: whether files come along depends on the file system of the pool"
        yield finding_at(ID, NOTE, manifest, line, name, message, "write should_transfer_files = YES")
    when = settings.get("when_to_transfer_output")
    if when is None or (training and when.text.upper() == "ON_EXIT" and "checkpoint_exit_code" not in settings):
        severity = WARNING if training else NOTE
        said = "is not said" if when is None else "is ON_EXIT"
        message = f"when_to_transfer_output {said}: what an evicted job has written is thrown away"
        fix = "write when_to_transfer_output = ON_EXIT_OR_EVICT"
        yield finding_at(ID, severity, manifest, when.line if when else workload.line, name, message, fix)
