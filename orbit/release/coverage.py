"""Which GPU runs what of an image as machine code: the ``gpu-arch-coverage`` predicate.

Made from the report of the audit of the finished image, and the manifests of its kernels. For each file with device
code and each GPU of the profile: how many containers it loads as machine code (``sass``), how many the driver must
compile first (``ptx-jit``), and how many hold nothing for it (``none``); what of that was declared, and why.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from orbit.audit.reports.report import SCHEMA as AUDIT_SCHEMA
from orbit.audit.reports.report import LibraryCoverage, TargetReport
from orbit.core.files import sha256_file
from orbit.core.findings import Finding
from orbit.core.records import Record, load_json
from orbit.errors import InputError
from orbit.kernels.manifest import BuildManifest
from orbit.profile.model import Profile
from orbit.release.attest.statement import COVERAGE, Statement, make_statement
from orbit.release.evidence import KERNELS_FILE, KernelManifests, Summary
from orbit.release.provenance import SUMMARY_FILE, check_whole, stage_of

SCHEMA = "orbit.gpu-arch-coverage/1"
REPORT_FILE = "image-audit.json"
STAGE = "image-audit"
WAIVED = re.compile(r"(?P<reason>.*) \(until (?P<expires>\d{4}-\d{2}-\d{2})\)", re.DOTALL)
"""As :func:`orbit.audit.evaluate.evaluate` writes a waiver."""


class Containers(Record, frozen=True, kw_only=True):
    """Containers of device code of one file, by what one GPU gets of them."""

    target: str
    result: str
    """``sass``, ``ptx-jit`` or ``none``: what the file as a whole means for this GPU."""
    sass: int
    ptx_jit: int
    none: int


class FileCoverage(Record, frozen=True, kw_only=True):
    """One file with device code."""

    file: str
    """Relative to site-packages; else absolute in the image."""
    distribution: str
    """Who installed it; empty when no record names it."""
    version: str
    mode: str
    """``registering`` (every container is loaded) or ``dispatching`` (the file chooses)."""
    containers: int
    targets: tuple[Containers, ...]


class TargetTotal(Record, frozen=True, kw_only=True):
    """One GPU of the profile, over all files."""

    name: str
    devices: tuple[str, ...]
    capability: str
    feature: str
    files: dict[str, int]
    """Number of files by result."""
    containers: dict[str, int]
    """Number of containers by what is loaded of them."""


class Deviation(Record, frozen=True, kw_only=True):
    """Something that is not as it would be at best, declared with its reason, and found to be just that."""

    subject: str
    what: str
    reason: str


class Waiver(Record, frozen=True, kw_only=True):
    """A finding that is accepted until a day."""

    rule: str
    subject: str
    finding: str
    reason: str
    expires: str
    """``2027-06-30``; empty when the report does not say."""


class Kernel(Record, frozen=True, kw_only=True):
    """A package with kernels, and for what it was compiled."""

    distribution: str
    version: str
    mode: str
    """``source``: compiled here for ``requested``; else published, and verified."""
    requested: tuple[str, ...]
    wheel_sha256: str


class Audit(Record, frozen=True, kw_only=True):
    """Which report this was made from."""

    orbit: str
    """Version of Orbit that judged."""
    schema: str
    report_sha256: str
    rules: tuple[str, ...]
    findings: dict[str, int]
    """``fatal``, ``waived``, ``other``."""
    not_judged: tuple[str, ...] = ()
    """What the audit did not look at, with the reason."""


class Coverage(Record, frozen=True, kw_only=True):
    """The predicate."""

    schema: str = SCHEMA
    profile: str
    made: str
    """When the image was audited: UTC, ISO 8601."""
    targets: tuple[TargetTotal, ...]
    files: tuple[FileCoverage, ...]
    expected: tuple[Deviation, ...]
    waivers: tuple[Waiver, ...]
    kernels: tuple[Kernel, ...]
    audit: Audit


def coverage_of_run(folder: Path, profile: Profile) -> Statement:
    """The statement about the image of the run in ``folder``.

    Raises :class:`InputError` when the run failed, made no image of ``profile``, or lacks the report.
    """
    path = folder / SUMMARY_FILE
    summary = load_json(path, Summary)
    check_whole(summary, profile, path)
    report = load_json(folder / REPORT_FILE, TargetReport)
    predicate = make_coverage(
        profile,
        report,
        load_json(folder / KERNELS_FILE, KernelManifests).manifests,
        report_sha256=sha256_file(folder / REPORT_FILE),
        orbit_version=summary.orbit_version,
        made=stage_of(summary.stages, STAGE).started,
    )
    return make_statement(profile.image.name, summary.image_digest, COVERAGE, predicate)


def make_coverage(
    profile: Profile,
    report: TargetReport,
    manifests: Sequence[BuildManifest],
    *,
    report_sha256: str,
    orbit_version: str,
    made: str,
) -> Coverage:
    """The predicate. Raises :class:`InputError` for a report of another profile, or one that lacks one of its GPUs."""
    if report.profile != profile.name:
        raise InputError(
            f"the audit report is of profile {report.profile}, not {profile.name}", fix="give the run of that profile"
        )
    owners = {binary.file: manifest.dist for manifest in manifests for binary in manifest.found}
    files = tuple(_file(row, owners, report.distributions) for row in report.coverage)
    return Coverage(
        profile=profile.name,
        made=made,
        targets=tuple(_totals(profile, files)),
        files=files,
        expected=tuple(Deviation(subject=e.subject, what=e.what, reason=e.reason) for e in report.expected),
        waivers=tuple(_waiver(finding) for finding in report.findings if finding.waiver),
        kernels=tuple(_kernel(manifest) for manifest in sorted(manifests, key=lambda item: item.dist)),
        audit=Audit(
            orbit=orbit_version,
            schema=AUDIT_SCHEMA,
            report_sha256=report_sha256,
            rules=report.rules,
            findings=_weights(report.findings),
            not_judged=tuple(f"{part.what}: {part.reason}" for part in report.skipped),
        ),
    )


def _file(row: LibraryCoverage, owners: Mapping[str, str], versions: Mapping[str, str]) -> FileCoverage:
    name = row.distribution or owners.get(row.file, "")
    return FileCoverage(
        file=row.file,
        distribution=name,
        version=versions.get(name, ""),
        mode=row.mode,
        containers=row.containers,
        targets=tuple(
            Containers(
                target=each.target, result=row.result(each), sass=each.sass, ptx_jit=each.ptx_jit, none=each.none
            )
            for each in row.targets
        ),
    )


def _totals(profile: Profile, files: Sequence[FileCoverage]) -> Iterator[TargetTotal]:
    for target in profile.targets:
        rows = [row for file in files for row in file.targets if row.target == target.name]
        if len(rows) != len(files):
            raise InputError(
                f"the audit report says nothing about {target.name} in {len(files) - len(rows)} files",
                fix="audit the image again with this profile",
            )
        results = Counter(row.result for row in rows)
        yield TargetTotal(
            name=target.name,
            devices=target.devices,
            capability=target.capability,
            feature=target.feature,
            files={kind: results[kind] for kind in ("sass", "ptx-jit", "none")},
            containers={
                "sass": sum(row.sass for row in rows),
                "ptx-jit": sum(row.ptx_jit for row in rows),
                "none": sum(row.none for row in rows),
            },
        )


def _waiver(finding: Finding) -> Waiver:
    """The finding with the reason it is accepted, taken apart."""
    parts = WAIVED.fullmatch(finding.waiver)
    return Waiver(
        rule=finding.rule,
        subject=finding.subject,
        finding=finding.message,
        reason=parts["reason"] if parts else finding.waiver,
        expires=parts["expires"] if parts else "",
    )


def _kernel(manifest: BuildManifest) -> Kernel:
    return Kernel(
        distribution=manifest.dist,
        version=manifest.version,
        mode=manifest.mode,
        requested=manifest.requested,
        wheel_sha256=manifest.wheel_sha256,
    )


def _weights(findings: Sequence[Finding]) -> dict[str, int]:
    fatal = sum(finding.fatal for finding in findings)
    waived = sum(bool(finding.waiver) for finding in findings)
    return {"fatal": fatal, "waived": waived, "other": len(findings) - fatal - waived}


def summary_lines(coverage: Coverage) -> Iterator[str]:
    """The predicate for people: a line for each GPU, then what was declared.

    Files are counted and not containers: a library that chooses has one for every GPU there is, and needs one.
    """
    for target in coverage.targets:
        total = sum(target.files.values())
        yield (
            f"{target.name} ({target.capability}): of {total} files with device code {target.files['sass']} run as "
            f"machine code, {target.files['ptx-jit']} are compiled by the driver first, {target.files['none']} hold "
            "containers with nothing for it"
        )
    yield f"{len(coverage.expected)} declared deviations, {len(coverage.waivers)} waivers"
