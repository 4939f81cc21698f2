"""slurm-cpus: the CPUs that Slurm gives are those that the job counts on."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.amounts import whole
from orbit.launch.lint.facts import Manifest, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, NOTE, WARNING, finding_at, who
from orbit.launch.lint.programs import Program, script_programs

ID = "slurm-cpus"
TITLE = "the CPUs that Slurm gives are those that the job and Ray count on"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Batch scripts."""
    for workload in manifest.workloads:
        if workload.kind != "sbatch":
            continue
        found = script_programs(workload.script)
        yield from _ray(manifest, workload, found)
        yield from _gpus(manifest, workload)
        yield from _steps(manifest, workload)


def _cpus(workload: Workload) -> int | None:
    """CPUs of one node; None where they are not said or the node is taken whole."""
    if "exclusive" in workload.settings or "cpus-per-task" not in workload.settings:
        return None
    each = whole(workload.settings["cpus-per-task"].text)
    tasks = whole(workload.settings["ntasks-per-node"].text) if "ntasks-per-node" in workload.settings else 1
    return None if each is None or tasks is None else each * tasks


def _ray(manifest: Manifest, workload: Workload, found: tuple[Program, ...]) -> Iterator[Finding]:
    starts = [program for program in found if program.kind == "ray start"]
    cpus = _cpus(workload)
    for program in starts:
        asked = program.number("num-cpus")
        if asked is not None and cpus is not None and asked[0] > cpus:
            message = f"Ray is told of {asked[0]} CPUs, the job has {cpus} of a node: placement groups wait for ever"
            fix = 'write --num-cpus "${SLURM_CPUS_PER_TASK}"'
            yield finding_at(ID, ERROR, manifest, asked[1].line, who(workload), message, fix)
    if starts and "cpus-per-task" not in workload.settings and "exclusive" not in workload.settings:
        message = "Ray is started and --cpus-per-task is not said: Slurm gives one CPU, Ray's bundles wait for ever"
        fix = "add #SBATCH --cpus-per-task with what the bundles need"
        yield finding_at(ID, WARNING, manifest, starts[0].line, who(workload), message, fix)


def _gpus(manifest: Manifest, workload: Workload) -> Iterator[Finding]:
    cpus = _cpus(workload)
    gpus = max((item.gpus for pod in workload.pods for item in pod.containers), default=0)
    if cpus is not None and 0 < cpus < gpus:
        line = workload.settings["cpus-per-task"].line
        message = f"{cpus} CPUs for {gpus} GPUs of a node: a bundle of one CPU for each GPU does not fit"
        yield finding_at(ID, WARNING, manifest, line, who(workload), message, "ask for several CPUs for each GPU")


def _steps(manifest: Manifest, workload: Workload) -> Iterator[Finding]:
    """Since Slurm 22.05 ``srun`` does not take --cpus-per-task from the batch script."""
    if "cpus-per-task" not in workload.settings or "SRUN_CPUS_PER_TASK" in manifest.text:
        return
    steps = [item for pod in workload.pods for item in pod.containers if item.name != "batch"]
    bare = [item for item in steps if any(key.startswith("srun ") for key in item.options)]
    for item in bare:
        names = ("srun cpus-per-task", "srun c", "srun exact", "srun exclusive")
        if item.gpus and not any(name in item.options for name in names):
            message = "this step does not say --cpus-per-task, which Slurm 22.05 and later do not take from the script"
            fix = "add export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before the first srun"
            yield finding_at(ID, NOTE, manifest, item.line, who(workload), message, fix)
            return
