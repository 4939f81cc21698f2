"""slurm-signal: a training job is told before its time is over."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import WARNING, finding_at, who
from orbit.launch.lint.programs import is_trainer, script_programs, trains

ID = "slurm-signal"
TITLE = "a training job is told before its time is over"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Batch scripts with GPUs that train."""
    for workload in manifest.workloads:
        if workload.kind == "sbatch" and "signal" not in workload.settings and _trains(workload):
            message = "--signal is not said: at the time limit SIGKILL follows SIGTERM after KillWait, 30 s by default"
            fix = "add #SBATCH --signal=TERM@120, or what the largest checkpoint needs"
            yield finding_at(ID, WARNING, manifest, workload.line, who(workload), message, fix)


def _trains(workload: Workload) -> bool:
    containers = [item for pod in workload.pods for item in pod.containers]
    if not any(item.gpus for item in containers):
        return False
    return any(map(trains, containers)) or any(is_trainer(program) for program in script_programs(workload.script))
