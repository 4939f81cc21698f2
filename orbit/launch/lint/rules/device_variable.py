"""device-variable: which GPUs a container sees is left to who gives them out."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding, Severity
from orbit.launch.lint.facts import Container, Env, Form, Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, NOTE, WARNING, finding_at, who

ID = "device-variable"
TITLE = "which GPUs a container sees is left to who gives them out"
FIX = "remove it"
NOTHING = ("", "void", "none", "-1", "NoDevFiles")
OVERRIDE = ("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",)
OWNER = {"htcondor": "the slot's", "slurm": "the job's", "kubernetes": "the pod's"}


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """One finding per variable and container."""
    seen: set[tuple[str, str | None, int]] = set()
    for workload, pod, container in manifest.seats():
        for env in container.env:
            found = _judged(manifest.form, container, env)
            key = env.name, env.value, env.line
            if found is not None and key not in seen:
                seen.add(key)
                severity, message = found
                name = who(workload, pod, container)
                yield finding_at(
                    ID, severity, manifest, env.line, name, f"{env.name} {message}", FIX, value=env.value or ""
                )


def _judged(form: Form | None, container: Container, env: Env) -> tuple[Severity, str] | None:
    if env.name == "CUDA_VISIBLE_DEVICES":
        return _visible(form, container, env)
    if env.name == "NVIDIA_VISIBLE_DEVICES" and env.value is not None:
        return _toolkit(form, container, env.value)
    if env.name in OVERRIDE and env.value in ("1", "true"):
        return WARNING, "lets every actor of Ray see every GPU: two of them share one without knowing"
    return None


def _toolkit(form: Form | None, container: Container, value: str) -> tuple[Severity, str] | None:
    """What the NVIDIA container toolkit reads."""
    if form == "kubernetes" and value not in NOTHING:
        if container.gpus:
            return WARNING, "takes the place of what the device plugin gives: the container sees GPUs of other pods"
        return WARNING, "gives a container GPUs that it did not ask for: other pods use them as well"
    if form in ("shell", "compose") and container.gpus and value in NOTHING:
        return WARNING, "hides the GPUs that are asked for"
    if form in ("shell", "slurm") and "gpus" in container.options and value != "all":
        return WARNING, "and --gpus both choose devices: which one counts depends on the version of the toolkit"
    return None


def _visible(form: Form | None, container: Container, env: Env) -> tuple[Severity, str] | None:
    if env.value is None:
        return None
    if form == "htcondor":
        return ERROR, "is the slot's to set: other values take GPUs of other jobs, or none that are there"
    if env.value.strip() in NOTHING:
        return (ERROR, "hides every GPU that is asked for") if container.gpus else None
    count = len([part for part in env.value.split(",") if part.strip()])
    if 0 < container.gpus < count:
        return ERROR, f"names {count} devices, and {container.gpus} are asked for"
    if form in ("slurm", "kubernetes"):
        return WARNING, f"is {OWNER[form]} to set: other numbers than those given are not there, or another job's"
    return NOTE, "chooses devices by number: --gpus or device_ids do so without hiding it from the runtime"
