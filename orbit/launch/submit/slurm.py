"""Jobs under Slurm, by its own programs: sbatch, scontrol, sacct, scancel.

``SBATCH_*`` variables of the caller are not passed on: what a job gets is in the script, and nowhere else.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from orbit.core import proc
from orbit.core.tools import find
from orbit.errors import CommandFailed, InputError, MissingError, OrbitError
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import File
from orbit.launch.submit.follow import follow as followed
from orbit.launch.submit.model import JobRef, JobStatus, Phase
from orbit.launch.submit.model import now as time_now

KEPT = ("SLURM_CONF", "SLURM_CLUSTERS")
"""Where the controller is."""
UNREACHABLE = re.compile(
    r"unable to contact slurm controller|could not establish a configuration source|connection (refused|timed out)"
    r"|munge|zero bytes were transmitted|configuration file|socket timed out",
    re.IGNORECASE,
)
UNKNOWN = re.compile(r"invalid job id", re.IGNORECASE)
STEP = re.compile(r"\.\d+$")
"""``7.0``; the batch script itself is ``7.batch``."""
ASK_S = 60.0
PAUSE_S = 0.5
LATE_S = 15.0
"""After the grace period: Slurm's own time to end a step and write it down."""
PHASES = {
    "PENDING": Phase.WAITING,
    "CONFIGURING": Phase.WAITING,
    "REQUEUED": Phase.WAITING,
    "REQUEUE_HOLD": Phase.WAITING,
    "RESV_DEL_HOLD": Phase.WAITING,
    "SPECIAL_EXIT": Phase.WAITING,
    "RUNNING": Phase.RUNNING,
    "RESIZING": Phase.RUNNING,
    "SUSPENDED": Phase.RUNNING,
    "STOPPED": Phase.RUNNING,
    "SIGNALING": Phase.RUNNING,
    "STAGE_OUT": Phase.STOPPING,
    "COMPLETING": Phase.STOPPING,
    "COMPLETED": Phase.SUCCEEDED,
    "CANCELLED": Phase.CANCELLED,
    "REVOKED": Phase.CANCELLED,
    "FAILED": Phase.FAILED,
    "TIMEOUT": Phase.FAILED,
    "OUT_OF_MEMORY": Phase.FAILED,
    "NODE_FAIL": Phase.FAILED,
    "BOOT_FAIL": Phase.FAILED,
    "DEADLINE": Phase.FAILED,
    "PREEMPTED": Phase.FAILED,
}
MEANINGS = {
    "TIMEOUT": "its time limit was reached: launch.minutes in the recipe",
    "OUT_OF_MEMORY": "a node used more memory than launch.memory_gib",
    "NODE_FAIL": "a node died or was lost",
    "PREEMPTED": "another job took its nodes",
    "BOOT_FAIL": "a node did not come up",
    "DEADLINE": "it could not end before its deadline",
}


def open_scheduler() -> Slurm:
    """The cluster that SLURM_CONF, or this machine's own configuration, names."""
    return Slurm()


class Slurm:
    """See :class:`orbit.launch.submit.model.Scheduler`."""

    def submit(
        self, plan: LaunchPlan, form: str, files: tuple[File, ...], folder: Path, secrets: Mapping[str, str]
    ) -> JobRef:
        """``sbatch`` in the caller's folder, where the output file will be. Secrets go along as variables, by name."""
        said = _ask("sbatch", ["--parsable", str(folder / files[0].name)], doing=f"submitting {plan.name}", env=secrets)
        number = said.strip().partition(";")[0]
        if not number.isdigit():
            raise InputError(f"sbatch did not answer with a job id: {said.strip()!r}")
        output = Path.cwd() / f"{plan.name}-{number}.log"
        return JobRef(
            name=plan.name,
            scheduler="slurm",
            form=form,
            id=number,
            identity=plan.identity,
            site=plan.site.name,
            nodes=plan.job.nodes,
            submitted=time_now(),
            grace_seconds=plan.job.grace_seconds,
            details={"output": str(output)},
        )

    def status(self, ref: JobRef) -> JobStatus:
        """As the controller says; after it has forgotten the job, as the accounting does, where there is one."""
        try:
            said = _ask("scontrol", ["--oneliner", "show", "job", ref.id], doing=f"asking for {ref.name}")
            return _from_controller(said)
        except InputError as error:
            if not UNKNOWN.search(str(error)):
                raise
        return _from_accounting(ref)

    def logs(self, ref: JobRef, *, follow: bool) -> Iterator[bytes]:
        """The output file; all nodes write it, each line with its number."""
        path = Path(ref.details["output"])
        if not follow and not path.exists():
            status = self.status(ref)
            why = f"{status.state.lower()}{f', {status.message}' if status.message else ''}"
            raise MissingError(
                f"{path}: no output yet; the job is {why}", fix="orbit launch logs --follow waits for it"
            )
        yield from followed(
            lambda: [path] if path.exists() else [],
            lambda: not follow or self.status(ref).phase.ended,
            pause_s=PAUSE_S,
        )

    def cancel(self, ref: JobRef, *, now: bool) -> str:
        """SIGTERM to the nodes and the whole grace period; plain ``scancel`` gives only the cluster's KillWait."""
        before = self.status(ref)
        if before.phase.ended:
            return f"it had ended: {before.state.lower()}"
        if now or before.phase is Phase.WAITING:
            _ask("scancel", [ref.id], doing=f"cancelling {ref.name}")
            return (
                "cancelled before it started" if before.phase is Phase.WAITING else "ended at once (KillWait applies)"
            )
        told = self._signal(ref)
        deadline = time.monotonic() + ref.grace_seconds + LATE_S
        while not self.status(ref).phase.ended:
            if time.monotonic() > deadline:
                self._tell(ref, [])
                return f"SIGTERM did not end it within {ref.grace_seconds} s; scancel was sent"
            time.sleep(PAUSE_S)
            told = told or self._signal(ref)
        return "SIGTERM was sent, and it has ended"

    def _signal(self, ref: JobRef) -> bool:
        """SIGTERM to the steps, once there is one: before that it would reach nobody, and the job would go on."""
        words = ["--noheader", "--steps", "--jobs", ref.id, "--format=%i"]
        try:
            steps = _ask("squeue", words, doing=f"looking for the steps of {ref.name}").split()
        except InputError:  # it has ended in between
            return False
        if not any(STEP.search(step) for step in steps):
            return False
        self._tell(ref, ["--signal=TERM"])
        return True

    def _tell(self, ref: JobRef, options: list[str]) -> None:
        """scancel; that the job ended in between is no error."""
        try:
            _ask("scancel", [*options, ref.id], doing=f"cancelling {ref.name}")
        except InputError as error:
            if not UNKNOWN.search(str(error)) and "already completing" not in str(error):
                raise


def _ask(program: str, words: Sequence[str], *, doing: str, env: Mapping[str, str] | None = None) -> str:
    """What one of Slurm's programs answers.

    Raises :class:`MissingError` when it or the controller cannot be reached, :class:`InputError` when it says no.
    """
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    path = find(program)
    try:
        done = proc.run([path, *words], doing=doing, env={**kept, **(env or {})}, timeout_s=ASK_S)
    except CommandFailed as error:
        raise _explained(error, program) from None
    return done.stdout.decode(errors="replace")


def _explained(error: CommandFailed, program: str) -> OrbitError:
    lines = [line for line in error.tail.strip().splitlines() if line.strip()]
    last = "; ".join(lines[-3:]) if lines else f"status {error.status}"
    if error.status == 124 or UNREACHABLE.search(error.tail):
        tried = os.environ.get("SLURM_CONF") or "this machine's slurm.conf, or the one that DNS names"
        return MissingError(
            f"{error.what}: Slurm's controller does not answer (tried: {program} with {tried}): {last}",
            fix="run it where Slurm's commands work (`sinfo` must answer), or set SLURM_CONF",
        )
    return InputError(f"{error.what}: {last}", fix="correct the site file ([slurm], [nodes]) or the recipe")


def _from_controller(said: str) -> JobStatus:
    """The one line of ``scontrol --oneliner show job``."""
    state, reason = _field(said, "JobState"), _field(said, "Reason")
    phase = PHASES.get(state, Phase.RUNNING)
    nodes = _field(said, "NodeList")
    waits = phase is Phase.WAITING and reason not in ("", "None")
    message = reason if waits else MEANINGS.get(state, "")
    return JobStatus(
        phase=phase,
        state=state,
        exit_code=_code(_field(said, "ExitCode")) if phase.ended else None,
        message=message,
        nodes=() if nodes in ("", "(null)") else (nodes,),
    )


def _field(said: str, name: str) -> str:
    found = re.search(rf"(?:^|\s){name}=(\S*)", said)
    return found[1] if found else ""


def _code(text: str) -> int | None:
    """``7:0`` is status 7, ``0:9`` ended by signal 9 (137, as a shell says)."""
    status, _, signal = text.partition(":")
    if not status.isdigit():
        return None
    return 128 + int(signal) if signal.isdigit() and int(signal) else int(status)


def _from_accounting(ref: JobRef) -> JobStatus:
    words = ["--allocations", "--noheader", "--parsable2", "--format=State,ExitCode,NodeList", "--jobs", ref.id]
    try:
        said = _ask("sacct", words, doing=f"asking the accounting for {ref.name}").strip()
    except OrbitError:
        said = ""
    if not said:
        return JobStatus(
            phase=Phase.GONE,
            state="unknown",
            message="the controller has forgotten it (MinJobAge) and no accounting knows it; its output file is there "
            f"still: {ref.details['output']}",
        )
    state, code, nodes = said.splitlines()[0].split("|")[:3]
    word = state.split()[0]  # CANCELLED by 1000
    return JobStatus(
        phase=PHASES.get(word, Phase.GONE),
        state=word,
        exit_code=_code(code),
        message=MEANINGS.get(word, ""),
        nodes=(nodes,) if nodes else (),
    )
