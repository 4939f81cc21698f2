"""entry-point: an image whose entry point prepares the run is started through it."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Container, Manifest, Workload
from orbit.launch.lint.known import Known, reference
from orbit.launch.lint.making import NOTE, WARNING, finding_at, who, working

ID = "entry-point"
TITLE = "an image whose entry point prepares the run is started through it"
NAME = "orbit-entrypoint"


def check(manifest: Manifest, known: Known) -> Iterator[Finding]:
    """Containers of Orbit's images, or of the image that is known, that leave its entry point out."""
    entry = known.entry_point or NAME
    for workload, pod, container in working(manifest):
        if container.image is None or manifest.form in ("slurm", "htcondor"):
            continue
        image = reference(container.image.text)
        own = image.digest == known.image if known.image else image.is_own
        if not own or _through(container, entry):
            continue
        generated = workload.is_ray and container.role in ("head", "worker") and not _kept(workload)
        if not container.command and not generated:
            continue
        line = container.command[0].line if container.command else container.line
        who_does = "KubeRay's command" if generated else "command"
        message = (
            f"{who_does} takes the place of the image's entry point: state folder, caches and limits are not prepared"
        )
        fix = f"begin the command with {entry}, or use args"
        if generated:
            fix = f'annotate ray.io/overwrite-container-cmd: "true" and begin the command with {entry}'
        yield finding_at(
            ID, WARNING if not generated else NOTE, manifest, line, who(workload, pod, container), message, fix
        )


def _through(container: Container, entry: str) -> bool:
    name = entry.rpartition("/")[2]
    return any(word.text.rpartition("/")[2] == name or f"{name} " in word.text for word in container.words)


def _kept(workload: Workload) -> bool:
    word = workload.settings.get("overwrite-container-cmd")
    return word is not None and word.text == "true"
