"""Jobs in a docker or podman engine: started by the rendered script, found again by their label."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orbit.core import proc
from orbit.core.records import Record
from orbit.errors import CommandFailed, InputError, MissingError, RefusedError
from orbit.image.docker import CLIENT_VARIABLE, find_client
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import File
from orbit.launch.render.words import LABEL_JOB
from orbit.launch.submit.model import JobRef, JobStatus, Phase, now

KEPT = ("DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_HOST")
"""How a client finds its engine, beside DOCKER_HOST."""
UNREACHABLE = re.compile(
    r"cannot connect|connection refused|no such host|permission denied.*socket|error during connect", re.IGNORECASE
)
ASK_S = 60.0
STOP_MARGIN_S = 30.0
BOTH = ("/bin/sh", "-c", 'exec "$@" 2>&1', "sh")
"""Runs a program with its errors among its output: what a container printed on stderr is part of its log."""
COMPOSE_SERVICE = "com.docker.compose.service"


class Seen(Record, frozen=True, kw_only=True):
    """One container of a job, as the engine tells."""

    id: str
    node: str
    """``node-3`` of a compose file, else the container's name."""
    state: str
    exit_code: int
    out_of_memory: bool
    error: str


def open_scheduler() -> Docker:
    """The engine of this machine, or the one that DOCKER_HOST names."""
    return Docker()


class Docker:
    """See :class:`orbit.launch.submit.model.Scheduler`."""

    def submit(
        self, plan: LaunchPlan, form: str, files: tuple[File, ...], folder: Path, secrets: Mapping[str, str]
    ) -> JobRef:
        """Run the script; what it started is removed when it fails or is interrupted."""
        if form == "run" and plan.job.nodes > 1:
            raise InputError(
                f"launch.nodes = {plan.job.nodes}: a docker engine is one machine",
                fix="orbit launch render ... --out FOLDER, and the script on each machine; or --form compose to try it",
            )
        client = _client(plan.site.image.runtime)
        there = _seen(client, plan.name)
        for one in there:
            if _phase(one) is not Phase.FAILED and _phase(one) is not Phase.SUCCEEDED:
                raise RefusedError(
                    f"{plan.name}: a container of this job is {one.state} ({one.node})",
                    fix=f"orbit launch cancel {plan.name}, or another name in the recipe",
                )
        _remove(client, plan.name, there)
        try:
            proc.run(
                ["/bin/sh", folder / files[0].name],
                doing=f"starting {plan.name}",
                env={**_kept(), **secrets, CLIENT_VARIABLE: str(client)},
                fix="docs/launch-docker.md says what each option needs",
            )
            started = _seen(client, plan.name)
        except CommandFailed as error:
            _remove(client, plan.name, _seen(client, plan.name))
            raise _explained(error) from None
        except BaseException:
            _remove(client, plan.name, _seen(client, plan.name))
            raise
        return JobRef(
            name=plan.name,
            scheduler="docker",
            form=form,
            id=started[0].id if started else "",
            identity=plan.identity,
            site=plan.site.name,
            nodes=plan.job.nodes,
            submitted=now(),
            grace_seconds=plan.job.grace_seconds,
            details={"runtime": plan.site.image.runtime},
        )

    def status(self, ref: JobRef) -> JobStatus:
        """By the first node's container; the job runs while any container does."""
        seen = _seen(_client(ref.details.get("runtime", "docker")), ref.name)
        if not seen:
            return JobStatus(phase=Phase.GONE, state="no container", message="its containers were removed")
        names = tuple(one.node for one in seen)
        going = [one for one in seen if not _phase(one).ended]
        shown = going[0] if going else seen[0]
        ended = not going
        said = "out of memory: its limit was reached" if shown.out_of_memory else shown.error
        return JobStatus(
            phase=_phase(shown),
            state=shown.state,
            exit_code=shown.exit_code if ended else None,
            message=said,
            nodes=names,
        )

    def logs(self, ref: JobRef, *, follow: bool) -> Iterator[bytes]:
        """Of each node in turn; followed is the first one, which prints the table of nodes and the command."""
        client = _client(ref.details.get("runtime", "docker"))
        seen = _seen(client, ref.name)
        if not seen:
            raise MissingError(f"{ref.name}: its containers are gone, and their logs with them")
        for one in seen[:1] if follow else seen:
            if len(seen) > 1:
                yield f"== {one.node}\n".encode()
            words: list[str] = [str(client), "logs", *(["--follow"] if follow else []), one.id]
            yield from proc.stream([*BOTH, *words], doing=f"reading the log of {one.node}", env=_kept())

    def cancel(self, ref: JobRef, *, now: bool) -> str:
        """``docker stop`` (SIGTERM, then SIGKILL after the grace period), or ``docker kill``."""
        client = _client(ref.details.get("runtime", "docker"))
        seen = _seen(client, ref.name)
        going = [one for one in seen if not _phase(one).ended]
        if going:
            words = ["kill"] if now else ["stop"]
            limit = ref.grace_seconds + STOP_MARGIN_S
            _ask(client, [*words, *(one.id for one in going)], doing=f"ending {ref.name}", timeout_s=limit)
            return f"{len(going)} container(s) ended; their logs stay until the next cancel or submit"
        _remove(client, ref.name, seen)
        return f"it had ended; {len(seen)} container(s) removed" if seen else "nothing of it is left"


def _client(runtime: str) -> Path:
    """The program that talks to the engine. Raises :class:`MissingError`."""
    named = os.environ.get(CLIENT_VARIABLE)
    found = shutil.which("podman") if runtime == "podman" and not named else find_client()
    if not found:
        raise MissingError(f"no {runtime} client on PATH", fix=f"install {runtime}, or name it in {CLIENT_VARIABLE}")
    return Path(found)


def _kept() -> dict[str, str]:
    return {name: os.environ[name] for name in KEPT if name in os.environ}


def _ask(client: Path, words: Sequence[str], *, doing: str, timeout_s: float = ASK_S) -> str:
    try:
        done = proc.run([client, *words], doing=doing, env=_kept(), timeout_s=timeout_s)
    except CommandFailed as error:
        raise _explained(error) from None
    return done.stdout.decode(errors="replace")


def _explained(error: CommandFailed) -> CommandFailed | MissingError:
    """No engine is something else than a container that does not start."""
    if not UNREACHABLE.search(error.tail):
        return error
    tried = os.environ.get("DOCKER_HOST") or os.environ.get("DOCKER_CONTEXT") or "the engine of this machine"
    return MissingError(
        f"{error.what}; no docker engine answers (tried: {tried}): {error.tail.strip().splitlines()[-1]}",
        fix="start the engine, or say where it is with DOCKER_HOST; `docker info` must answer",
    )


def _seen(client: Path, name: str) -> list[Seen]:
    """Every container of the job, the first node's first."""
    label = f"label={LABEL_JOB}={name}"
    ids = _ask(client, ["ps", "--all", "--quiet", "--no-trunc", "--filter", label], doing="looking for the job").split()
    if not ids:
        return []
    said = json.loads(_ask(client, ["inspect", *ids], doing="looking at the job"))
    return sorted((_read(one) for one in said), key=lambda one: (len(one.node), one.node))


def _read(one: dict[str, Any]) -> Seen:
    state = one["State"]
    labels = one["Config"].get("Labels") or {}
    return Seen(
        id=one["Id"],
        node=labels.get(COMPOSE_SERVICE) or one["Name"].removeprefix("/"),
        state=state["Status"],
        exit_code=int(state.get("ExitCode", 0)),
        out_of_memory=bool(state.get("OOMKilled")),
        error=state.get("Error") or "",
    )


def _phase(one: Seen) -> Phase:
    if one.state in ("exited", "dead", "stopped"):
        return Phase.SUCCEEDED if one.exit_code == 0 else Phase.FAILED
    if one.state in ("created", "configured", "initialized"):
        return Phase.WAITING
    return Phase.STOPPING if one.state in ("removing", "stopping") else Phase.RUNNING


def _remove(client: Path, name: str, seen: Sequence[Seen]) -> None:
    """Containers with their volumes, and the network of a compose file."""
    if not seen:
        return
    _ask(client, ["rm", "--force", "--volumes", *(one.id for one in seen)], doing=f"removing what is left of {name}")
    label = f"label=com.docker.compose.project={name}"
    words = ["network", "ls", "--quiet", "--filter", label]
    if networks := _ask(client, words, doing="looking for the network of the job").split():
        _ask(client, ["network", "rm", *networks], doing="removing the network of the job")
