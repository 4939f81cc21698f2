"""lost-signal: the scheduler's SIGTERM reaches the program that has something to save."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding, Severity
from orbit.launch.lint.facts import Container, Manifest, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import NOTE, WARNING, finding_at, who, working
from orbit.launch.lint.programs import SHELLS, container_commands, program_of, shell_text, trains

ID = "lost-signal"
TITLE = "the scheduler's SIGTERM reaches the program that has something to save"
QUIET = frozenset(("set", "cd", "ulimit", "source", ".", "umask", "export", "unset", "shopt"))


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Containers with a GPU, a trainer or Ray whose first process is a shell that stays, or a bare interpreter."""
    if manifest.form in ("slurm", "htcondor"):
        return
    for workload, pod, container in working(manifest):
        found = _judged(workload, container)
        if found is not None:
            severity, line, message, fix = found
            yield finding_at(ID, severity, manifest, line, who(workload, pod, container), message, fix)


type Verdict = tuple[Severity, int, str, str]


def _judged(workload: Workload, container: Container) -> Verdict | None:
    """Severity, line, message and fix."""
    if not container.words or (workload.is_ray and container.role in ("head", "worker")):
        return None
    text = shell_text(container)
    if text is None:
        return _bare(container)
    found = [command for command in container_commands(container) if command.words]
    works = [command for command in found if command.program not in QUIET]
    starts = [program.kind for command in works if (program := program_of(command)) is not None]
    if not works or not (container.gpus or trains(container) or "ray start" in starts):
        return None
    last = works[-1]
    if last.is_exec or any(command.program == "trap" for command in found) or last.program in SHELLS:
        return None
    piped = len(works) > 1 and works[-2].after in ("|", "|&")
    if len(works) == 1 and len(found) == 1:
        return None  # a shell becomes its only command
    message = (
        "a shell is the first process and does not pass SIGTERM on: the program gets SIGKILL after the grace period"
    )
    if piped:
        message += "; behind a pipe its exit status is lost as well"
    return WARNING, last.line, message, f"write exec before the last command ({last.program}), or trap the signal"


def _bare(container: Container) -> Verdict | None:
    """An interpreter as the first process has no default action for SIGTERM: the kernel drops it."""
    if not container.command or not trains(container) or "init" in container.options:
        return None
    program = program_of(container_commands(container)[0])
    first = container.words[0]
    if program is None or program.kind != "python" or not first.text.rpartition("/")[2].startswith("python"):
        return None
    message = "Python is the first process: without a handler of its own SIGTERM does nothing to it"
    return NOTE, first.line, message, "start it through the image's entry point, tini or --init, or handle SIGTERM"
