"""Counts and licences of an image for people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from orbit.core.findings import Finding, Severity
from orbit.core.records import Record
from orbit.release.sbom.expressions import licences_in
from orbit.release.sbom.knowledge import UNKNOWN, Knowledge, knowledge
from orbit.release.sbom.model import KINDS, Component, Inventory
from orbit.release.sbom.write import LICENSED, SbomResult

SCHEMA = "orbit.image-licenses/1"
DENIED = "denied"
NOTICE = "This list says what the image's own files say. It is no legal advice."


class LicenceRow(Record, frozen=True, kw_only=True):
    """The licence of one component."""

    kind: str
    name: str
    version: str
    group: str
    """``denied``, ``unknown``, or a group of ``env/licenses.toml``."""
    expression: str
    """SPDX; empty when it is unknown."""
    unknown: str
    """Why it is unknown, or which of its licences no group has."""
    texts: tuple[str, ...]
    """Paths in the image."""
    missing: tuple[str, ...]
    """Licence files that its metadata names and the image lacks."""


class GroupRow(Record, frozen=True, kw_only=True):
    """One group."""

    name: str
    title: str
    asks: str
    components: int
    licences: dict[str, int]
    """Components by licence."""


class LicenceReport(Record, frozen=True, kw_only=True):
    """The licences of an image."""

    schema: str = SCHEMA
    image: str
    digest: str
    groups: tuple[GroupRow, ...]
    """Denied and unknown first, then the heaviest."""
    rows: tuple[LicenceRow, ...]
    """In the order of groups."""
    without_text: tuple[str, ...]
    """Components with no licence text of their own in the image."""
    findings: tuple[Finding, ...]


def licence_report(inventory: Inventory, *, strict: bool) -> LicenceReport:
    """The licences of everything in ``inventory`` that has one of its own. ``strict``: what is unknown or denied, and
    texts that are named and missing, are findings."""
    known = knowledge()
    order = [DENIED, UNKNOWN, *(group.name for group in reversed(known.groups))]
    rows = [_row(item, known) for item in inventory.components if item.kind in LICENSED]
    rows.sort(key=lambda row: (order.index(row.group), list(KINDS).index(row.kind), row.name, row.version))
    return LicenceReport(
        image=inventory.image,
        digest=inventory.digest,
        groups=tuple(_groups(rows, order, known)),
        rows=tuple(rows),
        without_text=tuple(f"{row.name} {row.version}" for row in rows if not row.texts),
        findings=tuple(_findings(rows)) if strict else (),
    )


def _row(item: Component, known: Knowledge) -> LicenceRow:
    expression = item.licence.expression
    group = DENIED if known.is_denied(expression) else known.group(expression)
    strange = [name for name in licences_in(expression) if known.group_of(name) == UNKNOWN]
    why = item.licence.unknown or (f"in no group: {', '.join(strange)}" if group == UNKNOWN else "")
    return LicenceRow(
        kind=item.kind,
        name=item.name,
        version=item.version,
        group=group,
        expression=expression,
        unknown=why,
        texts=tuple(text.path for text in item.licence.texts if text.size),
        missing=item.licence.missing,
    )


def _groups(rows: Sequence[LicenceRow], order: Sequence[str], known: Knowledge) -> Iterator[GroupRow]:
    titles = {group.name: (group.title, group.asks) for group in known.groups}
    titles[DENIED] = ("denied", "No image may hold them.")
    titles[UNKNOWN] = ("unknown", "Somebody must read the texts: nothing states the licence, or statements disagree.")
    for name in order:
        inside = [row for row in rows if row.group == name]
        licences = Counter(licence for row in inside for licence in licences_in(row.expression))
        yield GroupRow(
            name=name,
            title=titles[name][0],
            asks=titles[name][1],
            components=len(inside),
            licences=dict(sorted(licences.items(), key=lambda item: (-item[1], item[0]))),
        )


def _findings(rows: Sequence[LicenceRow]) -> Iterator[Finding]:
    for row in rows:
        subject = f"{row.name} {row.version}".rstrip()
        if row.group == DENIED:
            yield _finding("license-denied", subject, f"{row.expression} is denied", row, "leave it out")
        elif row.group == UNKNOWN:
            fix = "read its texts and write the conclusion into env/licenses.toml"
            yield _finding("license-unknown", subject, row.unknown or "its licence is unknown", row, fix)
        if row.missing and row.kind == "debian" and row.texts:
            message = f"its copyright file is in the image under another name: {row.texts[0]} ({row.missing[0]} is not)"
            fix = "keep the links of usr/share/doc in the base"
            yield _finding("license-text", subject, message, row, fix, severity=Severity.WARNING)
        elif row.missing:
            message = f"licence texts that must travel are not in the image: {', '.join(row.missing)}"
            yield _finding("license-text", subject, message, row, "keep licence files in the image")


def _finding(
    rule: str, subject: str, message: str, row: LicenceRow, fix: str, *, severity: Severity = Severity.ERROR
) -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        subject=subject,
        message=message,
        evidence={"kind": row.kind, "texts": str(len(row.texts))},
        fix=fix,
    )


def render_summary(result: SbomResult) -> str:
    """Counts and findings, a line each."""
    lines = [f"{result.image} {result.digest}"]
    lines += [f"  {count:>6}  {KINDS[kind]}" for kind, count in result.components.items() if count]
    lines.append("counted:")
    lines += [f"  {count:>6}  {name.replace('-', ' ')}" for name, count in result.checked.items()]
    lines.append("licences: " + ", ".join(f"{count} {name}" for name, count in result.groups.items() if count))
    lines += [f"wrote {path} ({form})" for form, path in result.files.items()]
    lines += list(_finding_lines(result.findings))
    fatal = sum(finding.fatal for finding in result.findings)
    lines.append(_number(fatal) if fatal else "everything that should be in it is in it, and nothing else")
    return "\n".join(lines) + "\n"


def render_licences(report: LicenceReport) -> str:
    """The list: unknown and denied first, then the heaviest group; every component with the places of its texts."""
    lines = [f"{report.image} {report.digest}", NOTICE, ""]
    lines += [f"  {group.components:>6}  {group.title}" for group in report.groups]
    rows: dict[str, list[LicenceRow]] = defaultdict(list)
    for row in report.rows:
        rows[row.group].append(row)
    for group in report.groups:
        if not group.components:
            continue
        lines += ["", f"{group.title} ({group.components}): {group.asks}"]
        for row in rows[group.name]:
            said = f"unknown: {row.unknown}" if not row.expression else row.expression
            said += f" ({row.unknown})" if row.expression and row.unknown else ""
            lines.append(f"  {row.name} {row.version} [{row.kind}]: {said}")
            lines += [f"      {path}" for path in row.texts]
            lines += [f"      not in the image: {name}" for name in row.missing]
    if report.without_text:
        lines += ["", f"no licence text in the image ({len(report.without_text)}): {', '.join(report.without_text)}"]
    if report.findings:
        lines += ["", *_finding_lines(report.findings), _number(sum(finding.fatal for finding in report.findings))]
    return "\n".join(lines) + "\n"


def _number(findings: int) -> str:
    return f"{findings} finding{'' if findings == 1 else 's'}"


def _finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"{finding.severity.value} {finding.rule} {finding.subject}: {finding.message}"
        yield from (f"    {key}: {value}" for key, value in sorted(finding.evidence.items()) if value)
        if finding.fix:
            yield f"    fix: {finding.fix}"
