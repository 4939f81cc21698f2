"""docker-flag: the flags of a docker line do not contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding, Severity
from orbit.launch.lint.facts import Container, Manifest, Word
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, NOTE, WARNING, finding_at, who
from orbit.launch.lint.programs import programs

ID = "docker-flag"
TITLE = "the flags of a docker line do not contradict each other, and limits are raised where Ray needs it"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """docker and podman lines, and compose services."""
    if manifest.form not in ("shell", "slurm", "compose"):
        return
    for workload, pod, container in manifest.seats():
        if not (workload.kind.endswith(" run") or workload.kind == "service"):
            continue
        for severity, line, message, fix in _judged(container):
            yield finding_at(ID, severity, manifest, line, who(workload, pod, container), message, fix)


def _judged(container: Container) -> Iterator[tuple[Severity, int, str, str]]:
    options = container.options
    gpus = options.get("gpus")
    if gpus is not None and "engine" in options and gpus.text.startswith("device=") and "," in gpus.text:
        message = f"--gpus {gpus.text}: docker reads what follows the comma as another option"
        yield ERROR, gpus.line, message, f"""write --gpus '"{gpus.text}"'"""
    restart = options.get("restart")
    if "rm" in options and restart is not None and restart.text != "no":
        yield ERROR, restart.line, "--rm and --restart exclude each other: docker refuses", "remove one of them"
    detached = "d" in options or "detach" in options
    if ("t" in options or "tty" in options) and "engine" in options and not detached:
        message = "a terminal is asked for: in a batch job or a pipeline there is none, and docker refuses"
        yield NOTE, options["engine"].line, message, "remove -t"
    if any(program.kind == "ray start" for program in programs(container)) and "nofile" not in options:
        message = "Ray opens thousands of files, and the engine's limit may be 1024"
        yield NOTE, container.line, message, "add --ulimit nofile=1048576:1048576 (compose: ulimits)"
    yield from _user(container, options.get("user") or options.get("u"))


def _user(container: Container, user: Word | None) -> Iterator[tuple[Severity, int, str, str]]:
    runtime = container.options.get("runtime")
    if runtime is not None and runtime.text == "nvidia" and container.options.get("gpus") is None:
        variable = container.variable("NVIDIA_VISIBLE_DEVICES")
        if variable is None and "engine" in container.options:
            message = "--runtime=nvidia without NVIDIA_VISIBLE_DEVICES: which GPUs there are is left to the image"
            yield NOTE, runtime.line, message, "write --gpus all, or set the variable"
    if user is not None and user.text == "":
        yield WARNING, user.line, "--user has no value", "write a number"
