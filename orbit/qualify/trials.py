"""Make a record: every case several times, each run in a fresh process, then judge what came out.

A process runs its cases one after another and leaves each as a file (:func:`write_trial`) beside the bytes of its
tensors. When it dies, the case it was at has failed, and another process goes on with the rest.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from orbit.core.console import Progress
from orbit.core.files import write_atomic
from orbit.core.records import Record, compact_json, load_json
from orbit.errors import InputError, MissingError, RefusedError
from orbit.qualify import batch
from orbit.qualify.judge import Trial, agree, count, judge_case, verdict
from orbit.qualify.model import Definition
from orbit.qualify.records import DefinitionId, Identity, Qualification, Settings
from orbit.qualify.sidefile import TensorWriter

IDENTITY_FILE = "identity.json"
BLOBS = "blobs"
MOST_REPEATS = 16

type CaseKey = tuple[str, str]
"""Path and type."""


class Order(Record, frozen=True, kw_only=True):
    """What a process is asked to run."""

    definition: Definition
    settings: Settings
    kind: Literal["cpu", "cuda"]
    cases: tuple[CaseKey, ...]
    folder: str
    """Where it leaves its results."""


class Starter(Protocol):
    """Runs an order in a fresh process and waits for it."""

    def __call__(self, order: Order) -> str:
        """How the process ended, when not well; empty else."""


def make_record(
    definition: Definition,
    path: Path,
    *,
    start: Starter,
    cases: Sequence[CaseKey],
    kind: Literal["cpu", "cuda"],
    settings: Settings,
    repeats: int,
    image: str = "",
    profile: str = "",
    progress: Progress,
) -> Qualification:
    """Run ``cases`` ``repeats`` times, judge them, and write the tensors beside ``path``; the record is returned.

    Raises :class:`InputError` for a number of repeats that proves nothing, :class:`MissingError` when not even the
    device could be examined, and :class:`RefusedError` when two processes saw two environments.
    """
    if not 1 <= repeats <= MOST_REPEATS:
        raise InputError(f"--repeats {repeats}", fix=f"from 1 to {MOST_REPEATS}; 2 show whether a path is repeatable")
    began = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory(prefix="qualify-") as scratch:
        runs = []
        for number in range(repeats):
            progress.step(f"run {number + 1} of {repeats}: {len(cases)} cases on {kind}")
            folder = Path(scratch, str(number))
            folder.mkdir()
            order = Order(definition=definition, settings=settings, kind=kind, cases=tuple(cases), folder=str(folder))
            runs.append(_run(order, start, progress))
        identity = _one_identity([identity for identity, _trials in runs])
        with TensorWriter(path.with_suffix(".tensors")) as tensors:
            for number, (_identity, trials) in enumerate(runs):
                _take(Path(scratch, str(number)), trials, tensors)
            judged = [
                judge_case([trials[case] for _identity, trials in runs], tensors.get) for case in dict.fromkeys(cases)
            ]
            done = agree(judged, definition, tensors.get)
            file = tensors.finish()
    said, lacking = verdict(done, definition, identity.device.kind)
    return Qualification(
        verdict=said,
        unproven=lacking,
        recorded=began,
        profile=profile,
        image=image,
        definition=DefinitionId(
            name=definition.name,
            identity=definition.identity,
            batch=batch.batch_digest(definition),
            weights=batch.weights_digest(definition),
        ),
        identity=identity,
        settings=settings,
        repeats=repeats,
        counts=count(done),
        cases=done,
        tensors=file,
    )


def write_trial(folder: Path, number: int, trial: Trial) -> None:
    """In a run's process: leave the result of its case ``number``, whole or not at all."""
    write_atomic(folder / f"{number}.json", compact_json(trial))


class Blobs:
    """In a run's process: the bytes of tensors, one file for each content."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / BLOBS
        self._folder.mkdir(exist_ok=True)

    def __call__(self, digest: str, data: bytes) -> None:
        """Keep ``data``."""
        path = self._folder / digest
        if not path.exists():
            partial = path.with_suffix(".partial")
            partial.write_bytes(data)
            partial.rename(path)


def _run(order: Order, start: Starter, progress: Progress) -> tuple[Identity, dict[CaseKey, Trial]]:
    """All cases of one run, in as many processes as it takes."""
    folder, found = Path(order.folder), dict[CaseKey, Trial]()
    identity: Identity | None = None
    rest = order.cases
    while rest:
        for old in folder.glob("*.json"):
            old.unlink()
        ended = start(msgspec.structs.replace(order, cases=rest))
        if (folder / IDENTITY_FILE).is_file():
            identity = load_json(folder / IDENTITY_FILE, Identity)
        elif identity is None:
            raise MissingError(
                f"nothing could be run: {ended or 'the process said nothing'}",
                fix="it needs torch (and a GPU for --device cuda): name an environment with --prefix",
            )
        done = 0
        while done < len(rest) and (folder / f"{done}.json").is_file():
            found[rest[done]] = load_json(folder / f"{done}.json", Trial)
            done += 1
        if done < len(rest):
            path, dtype = rest[done]
            reason = f"its process ended: {ended or 'without a result'}"
            found[rest[done]] = Trial(path=path, dtype=dtype, status="failed", reason=reason)
            progress.step(f"{path} {dtype}: {reason}")
            done += 1
        rest = rest[done:]
    assert identity is not None
    return identity, found


def _one_identity(seen: Sequence[Identity]) -> Identity:
    """The environment and device of all runs."""
    for other in seen[1:]:
        if other != seen[0]:
            raise RefusedError(
                "two runs of one record saw two environments or devices",
                fix="leave the environment alone while it is qualified, and pin the device (CUDA_VISIBLE_DEVICES)",
            )
    return seen[0]


def _take(folder: Path, trials: dict[CaseKey, Trial], tensors: TensorWriter) -> None:
    """Move the bytes that the trials name into the file beside the record."""
    for trial in trials.values():
        for entry in trial.entries:
            if entry.kept:
                tensors.add(entry.sha256, (folder / BLOBS / entry.sha256).read_bytes())
