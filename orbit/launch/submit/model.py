"""What every scheduler can do with a job, and what is kept of a submission.

A scheduler is a module ``orbit.launch.submit.<scheduler>`` with ``open_scheduler() -> Scheduler``. Its methods raise
:class:`MissingError` when the scheduler cannot be reached, in its own words and with what was tried.
"""

from __future__ import annotations

import datetime as dt
import importlib
import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from orbit.core.files import write_atomic
from orbit.core.records import Record, dump_json, load_json
from orbit.core.store import cache_root
from orbit.errors import InputError
from orbit.launch.job import NAME
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import File

SCHEMA = "orbit.launch/1"
FOLDER = "launch"
REF_NAME = "job.json"
CANCELLED_AT = "cancelled"
"""Key in the details of a reference: when `orbit launch cancel` was asked for."""


class Phase(StrEnum):
    """Where a job is. The last four are ends."""

    WAITING = "waiting"
    """Accepted; no node yet, or the image is being pulled."""
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    GONE = "gone"
    """The scheduler does not know it any more, so how it ended cannot be said."""

    @property
    def ended(self) -> bool:
        """Whether nothing runs any more."""
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED, Phase.GONE)


class JobRef(Record, frozen=True, kw_only=True):
    """A submitted job, as it is found again by its name."""

    schema: str = SCHEMA
    name: str
    scheduler: str
    form: str
    id: str
    """The scheduler's own name of it."""
    identity: str
    """Of the plan."""
    site: str
    nodes: int
    submitted: str
    """UTC, ISO 8601."""
    grace_seconds: int
    details: dict[str, str] = {}
    """What the scheduler's module needs to find it: namespace, output file, client."""


class JobStatus(Record, frozen=True, kw_only=True):
    """What the scheduler says of a job now."""

    phase: Phase
    state: str
    """The scheduler's own word."""
    exit_code: int | None = None
    """Of the job, where it has ended and the scheduler keeps it."""
    message: str = ""
    """Why it waits, or how it ended."""
    nodes: tuple[str, ...] = ()
    """Where it runs, or ran."""


class Scheduler(Protocol):
    """One scheduler."""

    def submit(
        self, plan: LaunchPlan, form: str, files: tuple[File, ...], folder: Path, secrets: Mapping[str, str]
    ) -> JobRef:
        """Hand over ``files``, which lie in ``folder``; ``secrets`` have values and must not get into a file of it.

        Raises :class:`RefusedError` when a job of that name is there already and has not ended.
        """
        ...

    def status(self, ref: JobRef) -> JobStatus:
        """Ask once."""
        ...

    def logs(self, ref: JobRef, *, follow: bool) -> Iterator[bytes]:
        """What the job printed so far; with ``follow`` also what it will print, until it ends."""
        ...

    def cancel(self, ref: JobRef, *, now: bool) -> str:
        """End it: SIGTERM and its grace period, or with ``now`` at once. What was done, in a sentence.

        A job that has ended is not an error: what is left of it at the scheduler is removed.
        """
        ...


def open_scheduler(name: str) -> Scheduler:
    """The scheduler of a site."""
    module = importlib.import_module(f"orbit.launch.submit.{name}")
    found: Scheduler = module.open_scheduler()
    return found


def job_folder(name: str) -> Path:
    """``<store>/launch/<name>``: rendered files and the reference of the last submission. Raises for no job's name."""
    if not NAME.match(name):
        raise InputError(f"{name!r} is no name of a job", fix="the name in the recipe's [launch]")
    return cache_root() / FOLDER / name


def save_files(folder: Path, files: tuple[File, ...]) -> None:
    """Write what was rendered; what an earlier submission left there is removed first."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {file.name for file in files} | {REF_NAME}
    for old in folder.iterdir():
        if old.name not in kept and old.is_file():
            old.unlink()
    for file in files:
        write_atomic(folder / file.name, file.text.encode(), mode=file.mode)


def save_ref(ref: JobRef) -> None:
    """Remember a submission."""
    dump_json(job_folder(ref.name) / REF_NAME, ref)


def load_ref(name: str) -> JobRef:
    """The last submission of the job ``name``. Raises :class:`InputError` when there is none."""
    path = job_folder(name) / REF_NAME
    if not path.exists():
        known = ", ".join(ref.name for ref in all_refs()) or "none was submitted by this user on this machine"
        raise InputError(f"{name}: no job of that name", fix=f"known: {known}")
    return load_json(path, JobRef)


def all_refs() -> list[JobRef]:
    """Every job this user submitted from this machine, the newest first."""
    refs = [load_json(path, JobRef) for path in (cache_root() / FOLDER).glob(f"*/{REF_NAME}")]
    return sorted(refs, key=lambda ref: ref.submitted, reverse=True)


def now() -> str:
    """The time, UTC, as references have it."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_secrets(names: tuple[str, ...]) -> dict[str, str]:
    """The values of a job's secrets, from this process' environment. Raises :class:`InputError` naming what is missing.

    They are never printed and never part of an error.
    """
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise InputError(
            f"secrets without a value in this shell: {', '.join(missing)}", fix=f"export {missing[0]}, then again"
        )
    return {name: os.environ[name] for name in names}
