"""Jobs of an HTCondor pool, by its own programs: condor_submit, condor_q, condor_history, condor_rm.

One process of a cluster is one node. The owner token and secrets are files of a private folder (0700, files 0600) that
HTCondor transfers when a node starts; it is removed once all nodes run, or the job has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets as random
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orbit.core import proc
from orbit.core.files import write_atomic
from orbit.core.tools import find
from orbit.errors import CommandFailed, InputError, MissingError, OrbitError, RefusedError
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import File
from orbit.launch.render.htcondor import OWNER, PRIVATE, SECRETS
from orbit.launch.submit.follow import follow as followed
from orbit.launch.submit.htcondor_state import ATTRIBUTES, all_run, read_state
from orbit.launch.submit.model import JobRef, JobStatus, now

ASK_S = 60.0
PAUSE_S = 1.0
LATE_S = 60.0
"""After the grace period: the pool's own time to end a job and write it down."""
UNREACHABLE = re.compile(
    r"find address of|failed to (?:connect|fetch|end)|unable to (?:connect|find|locate|fetch)|no such schedd"
    r"|CEDAR:|SECMAN:|AUTHENTICATE:|CONDOR_CONFIG|condor_schedd is not running|can't connect",
    re.IGNORECASE,
)
RANGE = re.compile(r"^(\d+)\.\d+ - \1\.\d+\s*$", re.MULTILINE)
"""What ``condor_submit -terse`` says: ``7.0 - 7.1``."""
NONE_THERE = re.compile(r"couldn't find|not found|no jobs", re.IGNORECASE)


def open_scheduler() -> HTCondor:
    """The queue (schedd) of this machine, or the one its configuration names."""
    return HTCondor()


class HTCondor:
    """See :class:`orbit.launch.submit.model.Scheduler`."""

    def submit(
        self, plan: LaunchPlan, form: str, files: tuple[File, ...], folder: Path, secrets: Mapping[str, str]
    ) -> JobRef:
        """``condor_submit`` in ``folder``, where the output of each node will be."""
        found = _ads(
            "condor_q", ["-constraint", f'JobBatchName == "{plan.name}"', "-attributes", "ClusterId"], plan.name
        )
        if found:
            cluster = found[0]["ClusterId"]
            raise RefusedError(
                f"{plan.name}: the queue has a job of this name already (cluster {cluster})",
                fix=f"orbit launch cancel {plan.name}, condor_rm {cluster}, or another name in the recipe",
            )
        private = folder.with_name(f".{plan.name}.private")
        _fill(private, plan, secrets)
        try:
            words = ["-terse", f"{PRIVATE}={private}", files[0].name]
            said = _ask("condor_submit", words, doing=f"submitting {plan.name}", cwd=folder)
            number = RANGE.search(said)
            if not number:
                raise InputError(f"condor_submit did not answer with a cluster: {said.strip()!r}")
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise
        return JobRef(
            name=plan.name,
            scheduler="htcondor",
            form=form,
            id=number[1],
            identity=plan.identity,
            site=plan.site.name,
            nodes=plan.job.nodes,
            submitted=now(),
            grace_seconds=plan.job.grace_seconds,
            details={"folder": str(folder), "private": str(private), "host": socket.gethostname()},
        )

    def status(self, ref: JobRef) -> JobStatus:
        """As the queue says; nodes that have left it, as the history says."""
        queued = _ads("condor_q", [ref.id, "-attributes", ATTRIBUTES], ref.name)
        ended: list[dict[str, Any]] = []
        if len(queued) < ref.nodes:
            words = [ref.id, "-limit", str(ref.nodes), "-attributes", ATTRIBUTES]
            ended = _ads("condor_history", words, ref.name)
        status = read_state(ref, queued, ended)
        if status.phase.ended or all_run(ref, queued, ended):
            shutil.rmtree(ref.details["private"], ignore_errors=True)
        return status

    def logs(self, ref: JobRef, *, follow: bool) -> Iterator[bytes]:
        """Output and errors of the first node, which come back while it runs; without any, those of the others."""
        printed = False
        pieces = followed(
            lambda: self._outputs(ref), lambda: not follow or self.status(ref).phase.ended, pause_s=PAUSE_S
        )
        for piece in pieces:
            printed = True
            yield piece
        if not printed:
            status = self.status(ref)
            why = f"{status.state}{f', {status.message}' if status.message else ''}"
            raise MissingError(
                f"{ref.name} has printed nothing yet: it is {status.phase.value} ({why})",
                fix=f"orbit launch logs --follow waits for it; condor_q -better-analyze {ref.id} says why a job waits",
            )

    def _outputs(self, ref: JobRef) -> list[Path]:
        folder = Path(ref.details["folder"])
        by_rank = [[folder / f"{ref.name}.{rank}.{end}" for end in ("out", "err")] for rank in range(ref.nodes)]
        there = [[path for path in pair if path.exists() and path.stat().st_size] for pair in by_rank]
        return there[0] or [path for pair in there for path in pair]

    def cancel(self, ref: JobRef, *, now: bool) -> str:
        """``condor_rm``: SIGTERM and the grace period; with ``now`` nodes are taken away first, without one."""
        before = self.status(ref)
        if before.phase.ended:
            return f"it had ended: {before.state}"
        if now:
            with contextlib.suppress(InputError):  # nothing runs yet
                _ask("condor_vacate_job", ["-fast", ref.id], doing=f"ending {ref.name}")
        try:
            _ask("condor_rm", [ref.id], doing=f"cancelling {ref.name}")
        except InputError as error:
            if not NONE_THERE.search(str(error)):
                raise
        deadline = time.monotonic() + ref.grace_seconds + LATE_S
        while _ads("condor_q", [ref.id, "-attributes", "ProcId"], ref.name):
            if time.monotonic() > deadline:
                raise RefusedError(
                    f"{ref.name}: {ref.id} is still in the queue {ref.grace_seconds + LATE_S:g} s after condor_rm",
                    fix=f"its machine may be lost: condor_rm -forcex {ref.id} forgets the job",
                )
            time.sleep(PAUSE_S)
        shutil.rmtree(ref.details["private"], ignore_errors=True)
        return "killed at once, and removed" if now else "SIGTERM was sent, and it has ended"


def _fill(private: Path, plan: LaunchPlan, values: Mapping[str, str]) -> None:
    """The folder whose files go to the nodes. Raises :class:`InputError` where no list of files can hold its path."""
    if re.search(r'[,"$\s]', str(private)):
        raise InputError(
            f"{private}: HTCondor's list of files cannot hold this path",
            fix="set ORBIT_CACHE to a folder with a plain name",
        )
    shutil.rmtree(private, ignore_errors=True)
    if plan.job.nodes == 1 and not values:
        return
    (private / SECRETS).mkdir(parents=True, mode=0o700)
    private.chmod(0o700)
    if plan.job.nodes > 1:
        write_atomic(private / OWNER, random.token_hex(32).encode(), mode=0o600)
    for name, value in values.items():
        write_atomic(private / SECRETS / name, value.encode(), mode=0o600)


def _ads(program: str, words: Sequence[str], name: str) -> list[dict[str, Any]]:
    """The ads that condor_q or condor_history prints as JSON; nothing at all when there are none."""
    said = _ask(program, [*words, "-json"], doing=f"asking for {name}")
    try:
        found: list[dict[str, Any]] = json.loads(said) if said.strip() else []
    except ValueError:
        raise InputError(f"{program} did not answer with JSON: {said.strip()[:80]!r}") from None
    return found


def _ask(program: str, words: Sequence[str], *, doing: str, cwd: Path | None = None) -> str:
    """What one of HTCondor's programs answers.

    Raises :class:`MissingError` when it or the queue cannot be reached, :class:`InputError` when it says no.
    """
    argv = [str(find(program)), *words]
    try:
        # all of the caller's variables: _CONDOR_* is configuration, and credentials have their own
        done = proc.run(argv, doing=doing, env=dict(os.environ), cwd=cwd, timeout_s=ASK_S)
    except CommandFailed as error:
        raise _explained(error, program) from None
    return done.stdout.decode(errors="replace")


def _explained(error: CommandFailed, program: str) -> OrbitError:
    lines = [line.strip() for line in error.tail.splitlines() if line.strip()]
    said = " ".join(lines[-3:]) if lines else f"status {error.status}"
    if error.status == 124 or UNREACHABLE.search(error.tail):
        return MissingError(
            f"{error.what}: HTCondor's queue does not answer (tried: {program} on {socket.gethostname()}): {said}",
            fix="run it where `condor_q` answers (the access point of the pool), or set CONDOR_CONFIG",
        )
    return InputError(f"{error.what}: {said}", fix="correct the site file ([htcondor]) or the recipe")
