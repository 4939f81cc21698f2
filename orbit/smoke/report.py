"""Results as documents: the JSON of ``orbit image smoke`` and JUnit, with nothing but the standard library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orbit.core.junit import Case, Failure, Suite
from orbit.smoke.machine import MachineFacts
from orbit.smoke.model import FAILED, NEEDS_DRIVER, SKIPPED, CheckResult

SCHEMA = "orbit.smoke"
VERSION = 1
IN_PLACE = "in-place"
"""Stands where an engine's name would: the checks ran in the process that was there, without an engine of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRun:
    """One list run as one user."""

    list: str
    uid: int
    seconds: float
    results: tuple[CheckResult, ...]


def document(
    runs: Sequence[ListRun],
    *,
    profile: str,
    image: str = "",
    environment: str = "",
    started: str = "",
    machine: MachineFacts | None = None,
) -> dict[str, Any]:
    """The report of lists that ran in place; the fields are those of ``orbit.image.smoke.report.SmokeReport``.

    ``image`` is what the caller says it runs in: no image can know its own digest.
    """
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "profile": profile,
        "image": image,
        "engine": IN_PLACE,
        "engine_version": "",
        "real_ids": True,
        "runs": [asdict(run) for run in runs],
        "not_run": [],
        "reused": False,
        "environment": environment,
        "started": started,
        "machine": asdict(machine) if machine is not None else None,
    }


def suite(name: str, uid: int, seconds: float, results: Sequence[CheckResult], properties: Mapping[str, str]) -> Suite:
    """A list run as one user, as a JUnit suite. A verified ``needs-driver`` is a case that passed and says so."""
    return Suite(
        name=f"{name} as uid {uid}",
        cases=tuple(_case(name, result) for result in results),
        seconds=seconds,
        properties={**properties, "uid": str(uid)},
    )


def _case(name: str, result: CheckResult) -> Case:
    failures: tuple[Failure, ...] = ()
    if result.result == FAILED:
        text = f"{result.detail}\n{result.tail}".strip()
        failures = (Failure(kind=result.kind, message=result.detail or "failed", text=text),)
    mark = f"{NEEDS_DRIVER}: " if result.result == NEEDS_DRIVER else ""
    return Case(
        group=f"orbit.smoke.{name}",
        name=result.check,
        seconds=result.seconds,
        failures=failures,
        skipped=(result.detail or "no reason given") if result.result == SKIPPED else None,
        output=mark + result.detail if result.result not in (FAILED, SKIPPED) else "",
    )
