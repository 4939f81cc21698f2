"""condor-request: a submit file asks for what the job needs."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, WARNING, finding_at, who
from orbit.launch.lint.programs import Program, is_trainer, programs

ID = "condor-request"
TITLE = "a submit file asks for the memory, disk, CPUs and GPUs that the job needs"
NEEDED = ("request_memory", "request_disk", "request_cpus")


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Submit files of jobs with a GPU or an image."""
    for workload, pod, container in manifest.seats():
        if workload.kind != "submit" or not (container.gpus or container.image):
            continue
        missing = [name for name in NEEDED if name not in workload.settings]
        name = who(workload, pod, container)
        if missing:
            message = f"{', '.join(missing)} not said: the pool's defaults, which are small, hold or kill the job"
            yield finding_at(ID, WARNING, manifest, workload.line, name, message, f"add {' and '.join(missing)}")
        started = [
            program for program in programs(container) if is_trainer(program) or program.kind in ("vllm", "sglang")
        ]
        if started and "request_gpus" not in workload.settings and _wants(started[0]):
            message = "the command counts on GPUs and request_gpus is not said: the slot has none"
            yield finding_at(ID, ERROR, manifest, workload.line, name, message, "add request_gpus")
        yield from _universe(manifest, workload, name)


def _wants(program: Program) -> bool:
    found = program.number("nproc-per-node", "tensor-parallel-size", "tp", "tp-size", "num-gpus", "num-processes")
    return found is not None and found[0] > 0


def _universe(manifest: Manifest, workload: Workload, name: str) -> Iterator[Finding]:
    """An image that the universe does not read."""
    settings = workload.settings
    universe = settings["universe"].text.lower() if "universe" in settings else ""
    for key, wanted in (("docker_image", ("docker", "container", "")), ("container_image", ("container", ""))):
        if key in settings and universe not in wanted:
            message = f"{key} is not read in the {universe} universe: the job runs without the image"
            yield finding_at(ID, ERROR, manifest, settings[key].line, name, message, f"write universe = {wanted[0]}")
