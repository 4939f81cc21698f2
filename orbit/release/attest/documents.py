"""What people and machines have to say of an image, before it is signed: read, held against its form, found whole.

The field ``schema`` decides what a document is. Signing says who saw it, not that it is good: a report of a failed
check is signed like any other, and counts as what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbit.core.files import read_file
from orbit.core.records import convert
from orbit.errors import InputError
from orbit.image.smoke.report import SmokeReport
from orbit.profile.model import load_profile
from orbit.qualify.records import SCHEMA as QUALIFICATION_SCHEMA
from orbit.qualify.records import load_record
from orbit.release.attest.dsse import MAX_PAYLOAD_BYTES
from orbit.release.attest.statement import IMAGE_DIGEST, QUALIFICATION, SMOKE, Statement, make_statement, parse_time
from orbit.release.attest.strict import strict_json
from orbit.smoke.model import RESULTS
from orbit.smoke.report import SCHEMA as SMOKE_SCHEMA
from orbit.smoke.report import VERSION as SMOKE_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document that can be signed."""

    statement: Statement
    profile: str
    summary: str
    """What it says, in a few words."""


def read_document(path: Path) -> Document:
    """The document in ``path`` as a statement about the image it names.

    Raises :class:`InputError`: no such file, no document of Orbit that is signed alone, or one that lacks what a reader
    needs to believe it (image, time, machine).
    """
    try:
        data = read_file(path, MAX_PAYLOAD_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", fix=f"give one of: {_known()}") from None
    value = strict_json(data, str(path))
    schema = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(schema, str) or schema not in READERS:
        raise InputError(f"{path}: schema {schema!r} is nothing that is signed alone", fix=f"give one of: {_known()}")
    predicate_type, _, read = READERS[schema]
    profile, image, summary = read(value, path)
    name = load_profile(profile).image.name
    return Document(statement=make_statement(name, image, predicate_type, value), profile=profile, summary=summary)


def _smoke(value: dict[str, Any], where: Path) -> tuple[str, str, str]:
    report = convert(value, SmokeReport, str(where))
    again = "run the checks again with this version of orbit"
    if report.version != SMOKE_VERSION:
        raise InputError(f"{where}: version {report.version} of a smoke report", fix=again)
    if not IMAGE_DIGEST.fullmatch(report.image):
        raise InputError(
            f"{where}: does not say in which image the checks ran",
            fix="inside an image give python -m orbit.smoke its digest: --image sha256:..., as the registry shows it",
        )
    if not report.runs:
        raise InputError(f"{where}: nothing was run: {_reasons(report)}", fix="a report of nothing shows nothing")
    if not report.started or report.machine is None:
        raise InputError(f"{where}: does not say when, or on what machine, the checks ran", fix=again)
    parse_time(report.started, f"{where}: started")
    counts = report.counts()
    text = ", ".join(f"{counts[kind]} {kind}" for kind in RESULTS if counts[kind])
    gpus = ", ".join(sorted({gpu.name for gpu in report.machine.gpus})) or "no GPU"
    return report.profile, report.image, f"smoke, {text}, {gpus}, driver {report.machine.driver or 'none'}"


def _reasons(report: SmokeReport) -> str:
    return "; ".join(sorted({part.reason for part in report.not_run})) or "no reason is given"


def _qualification(_value: dict[str, Any], path: Path) -> tuple[str, str, str]:
    record = load_record(path)
    if not record.profile or not IMAGE_DIGEST.fullmatch(record.image):
        raise InputError(
            f"{path}: does not say of which profile or image it is",
            fix="make it again and give `orbit qualify record` both: --profile NAME --image sha256:...",
        )
    parse_time(record.recorded, f"{path}: recorded")
    device = record.identity.device
    return record.profile, record.image, f"qualification, {record.verdict}, {device.name}"


Reader = Callable[[dict[str, Any], Path], tuple[str, str, str]]
READERS: dict[str, tuple[str, str, Reader]] = {
    SMOKE_SCHEMA: (SMOKE, "a report of `orbit image smoke --json` or `python -m orbit.smoke --json FILE`", _smoke),
    QUALIFICATION_SCHEMA: (QUALIFICATION, "a record of `orbit qualify record`", _qualification),
}
"""``schema`` to predicate type, what it is in words, and who reads it."""


def _known() -> str:
    return "; ".join(words for _, words, _ in READERS.values())
