"""What an audit says: records with a published JSON schema. Every output format is made from these and nothing else."""

from __future__ import annotations

import msgspec

from orbit.core.findings import Finding, Severity, Skipped
from orbit.core.records import Record

SCHEMA = "orbit.audit/2"


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
    """See :class:`orbit.audit.loader.Resolution`."""
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
    """``environment``, ``image``, ``wheels`` or ``lock``."""
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
        """Whether anything unwaived weighs at least ``level`` (``error``, ``warning``, ``note``; ``never``: nothing)."""
        weights = list(Severity)
        heavy = set() if level == "never" else set(weights[: weights.index(Severity(level)) + 1])
        return any(
            finding.severity in heavy and not finding.waiver for report in self.reports for finding in report.findings
        )


def json_schema() -> bytes:
    """The JSON schema of :class:`AuditReport`, as published in docs/schemas/audit.json."""
    schema = msgspec.json.schema(AuditReport)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return msgspec.json.format(msgspec.json.encode(schema, order="sorted"), indent=2) + b"\n"
