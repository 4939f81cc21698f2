"""relative-path: a command in a container does not depend on a folder that the image chooses."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Container, Manifest, Word
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import WARNING, finding_at, who
from orbit.launch.lint.programs import programs

ID = "relative-path"
TITLE = "files that a command names are found whatever folder the image starts in"
FOLDER = ("srun container-workdir", "apptainer pwd", "singularity pwd", "apptainer W", "singularity W")
SCRIPTS = (".py", ".sh", ".yaml", ".yml", ".toml", ".json")


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Steps of a batch script that pyxis starts: it begins in the image's folder, not in the caller's."""
    for workload, pod, container in manifest.seats():
        if workload.kind != "sbatch" or container.image is None or "apptainer" in container.options:
            continue
        word = _relative(container)
        if word is not None and not any(name in container.options for name in FOLDER):
            message = f"{word.text} is looked for in the image's working folder, not where the job was submitted"
            fix = "write --container-workdir, or the whole path"
            yield finding_at(ID, WARNING, manifest, word.line, who(workload, pod, container), message, fix)


def _relative(container: Container) -> Word | None:
    for program in programs(container):
        for word in program.words[:12]:
            text = word.text
            if text.endswith(SCRIPTS) and not text.startswith(("/", "$", "-", "http", "~")) and "=" not in text:
                return word
    return None
