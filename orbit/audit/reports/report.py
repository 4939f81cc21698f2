"""What an audit says: records with a published JSON schema. Every output format is made from these and nothing else."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec

from orbit.core.files import read_file
from orbit.core.findings import Finding, Severity, Skipped
from orbit.core.records import MAX_BYTES, Record, indented_json
from orbit.errors import InputError

SCHEMA = "orbit.audit/2"
COUNTS = re.compile(r"(?<![\w.-])\d+(?![\w.-])")
"""Numbers that stand alone in a message: how many, never which."""


LINE = re.compile(r"^(\S+):([1-9]\d{0,8})(?: |$)")
"""How a subject begins that is a place in a text: ``deploy/job.yaml:12 Job/train``."""


class TargetCoverage(Record, frozen=True, kw_only=True):
    """Containers of one file by what one target would load of them."""

    target: str
    sass: int
    ptx_jit: int
    none: int


class LibraryCoverage(Record, frozen=True, kw_only=True):
    """Device code of one file."""

    file: str
    """Relative to site-packages."""
    mode: str
    """``registering`` (each container counts) or ``dispatching`` (the file as a whole counts)."""
    containers: int
    images: dict[str, int]
    """Number of images by architecture."""
    payload_bytes: int
    bytes_by_arch: dict[str, int] = {}
    """Payload bytes by architecture, compressed as they are in the file."""
    targets: tuple[TargetCoverage, ...]
    distribution: str = ""
    """Who installed it; empty when no record names the file."""

    def result(self, target: TargetCoverage) -> str:
        """``sass``, ``ptx-jit`` or ``none``: what ``target`` gets of the file, in the mode that the file is in."""
        bad = ("ptx-jit", target.ptx_jit), ("none", target.none)
        if self.mode == "dispatching":
            return "sass" if target.sass else next((name for name, count in bad if count), "none")
        return next((name for name, count in reversed(bad) if count), "sass")


class ArchitectureUse(Record, frozen=True, kw_only=True):
    """Device code of one architecture in all files, and which targets of the profile it is for."""

    arch: str
    images: int
    payload_bytes: int
    """Bytes in the files, compressed as they are there."""
    sass: tuple[str, ...]
    """Targets that run it as it is."""
    jit: tuple[str, ...]
    """Targets for which it can be compiled (PTX) or linked (LTO) at run time."""


class Expected(Record, frozen=True, kw_only=True):
    """An exception that was declared and is true: shown in every report so that nobody has to look for it."""

    subject: str
    what: str
    reason: str


class LoaderRow(Record, frozen=True, kw_only=True):
    """What one NEEDED entry of one shared object becomes: a line of the loader truth table."""

    file: str
    """Relative to site-packages."""
    soname: str
    how: str
    """See :class:`orbit.audit.models.loader.Resolution`."""
    path: str
    """What is loaded, relative to site-packages; several joined by a space when ambiguous; empty when not in it."""


class LibraryRelease(Record, frozen=True, kw_only=True):
    """A library that must be there once, with the release its own bytes state."""

    family: str
    """``NCCL``, ``cuDNN``, ..."""
    file: str
    soname: str
    release: str
    """Empty when the file does not say."""


class DepthTarget(Record, frozen=True, kw_only=True):
    """The kernels of one file on one target."""

    target: str
    kernels: int
    stubs: int
    missing: int
    """Kernels that the file has for another target and not for this one."""
    code_bytes: int


class DepthLibrary(Record, frozen=True, kw_only=True):
    """What ``--deep`` read in one file."""

    file: str
    kernels: int
    """Different kernel names in all images that some target would load."""
    targets: tuple[DepthTarget, ...]


class TargetReport(Record, frozen=True, kw_only=True):
    """The result for one target."""

    target: str
    """What was audited."""
    kind: str
    """``environment``, ``image``, ``wheels``, ``lock`` or ``manifests``."""
    profile: str
    uid: int
    """The user whose access was judged."""
    findings: tuple[Finding, ...]
    expected: tuple[Expected, ...]
    coverage: tuple[LibraryCoverage, ...]
    facts: dict[str, int]
    """Numbers of what was looked at: files, distributions, shared objects, containers, verified bytes, ..."""
    driver_libraries: dict[str, int]
    """Sonames that the host's GPU driver must bring, with the number of files that need them."""
    seconds: float
    rules: tuple[str, ...] = ()
    """Rules that judged this target."""
    skipped: tuple[Skipped, ...] = ()
    """What was not looked at, and why."""
    loader: tuple[LoaderRow, ...] = ()
    libraries: tuple[LibraryRelease, ...] = ()
    depth: tuple[DepthLibrary, ...] = ()
    """Filled by ``--deep`` only."""
    architectures: tuple[ArchitectureUse, ...] = ()
    distributions: dict[str, str] = {}
    """Version by name of what is installed; several versions of one name joined by ``, ``."""

    @property
    def failed(self) -> bool:
        """Whether any finding is fatal."""
        return any(finding.fatal for finding in self.findings)

    def counts(self) -> dict[str, int]:
        """The numbers of the audit and of its findings, for a stage's evidence."""
        fatal = sum(finding.fatal for finding in self.findings)
        waived = sum(bool(finding.waiver) for finding in self.findings)
        return {**self.facts, "findings": len(self.findings), "fatal": fatal, "waived": waived}


class AuditReport(Record, frozen=True, kw_only=True):
    """The results of one call, one for each target."""

    schema: str = SCHEMA
    orbit: str
    """Version of orbit."""
    reports: tuple[TargetReport, ...]
    unread: tuple[Skipped, ...] = ()
    """Targets that could not be audited at all, and why: the call has failed whatever the reports say."""

    @property
    def failed(self) -> bool:
        """Whether any target has a fatal finding or could not be audited."""
        return bool(self.unread) or any(report.failed for report in self.reports)

    def fails_at(self, level: str) -> bool:
        """Whether anything that is not waived weighs ``level`` or more: ``error``, ``warning``, ``note``; ``never``."""
        weights = list(Severity)
        heavy = set() if level == "never" else set(weights[: weights.index(Severity(level)) + 1])
        return any(
            finding.severity in heavy and not finding.waiver for report in self.reports for finding in report.findings
        )


def identities(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """A name for each finding that stays when only its counts change: what SARIF and a comparison know it by.

    Made of rule, subject without its line and message without its numbers; equal ones are told apart by their order.
    """
    seen: dict[str, int] = {}
    names: list[str] = []
    for finding in findings:
        subject = LINE.sub(r"\1 ", finding.subject)
        text = "\0".join((finding.rule, subject, COUNTS.sub("#", finding.message)))
        key = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
        seen[key] = seen.get(key, 0) + 1
        names.append(f"{key}:{seen[key]}")
    return tuple(names)


def load_reports(path: Path) -> tuple[TargetReport, ...]:
    """The reports in a file that ``orbit audit --json`` or ``orbit ship`` wrote.

    Raises :class:`InputError` when the file is no such report or one of another schema version.
    """
    fix = "give a file made by `orbit audit TARGET --json`, or the target itself"
    try:
        found = msgspec.json.decode(read_file(path, MAX_BYTES))
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path}: not an audit report: {error}", fix=fix) from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: not an audit report", fix=fix)
    schema = found.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise InputError(f"{path}: schema {schema!r}; this version of orbit reads {SCHEMA}", fix="make the report anew")
    try:
        if "reports" in found:
            return msgspec.convert(found, AuditReport).reports
        return (msgspec.convert(found, TargetReport),)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: not an audit report: {error}", fix=fix) from None


def json_schema(kind: type[Record] = AuditReport) -> bytes:
    """The JSON schema of ``kind``, as published in docs/schemas."""
    schema = msgspec.json.schema(kind)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return indented_json(schema)
