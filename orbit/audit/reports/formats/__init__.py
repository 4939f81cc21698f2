"""Audit reports for programs and browsers: one module for each format, all made from the records of a call."""

from __future__ import annotations

from collections.abc import Callable

from orbit.audit.reports.formats.html import to_html
from orbit.audit.reports.formats.junit import to_junit
from orbit.audit.reports.formats.sarif import to_sarif
from orbit.audit.reports.report import AuditReport
from orbit.core.records import compact_json
from orbit.errors import InputError


def to_json(report: AuditReport) -> bytes:
    """One line of JSON with the schema docs/schemas/audit.json."""
    return compact_json(report) + b"\n"


FORMATS: dict[str, Callable[[AuditReport], bytes]] = {
    "json": to_json,
    "sarif": to_sarif,
    "junit": to_junit,
    "html": to_html,
}


def render(form: str, report: AuditReport) -> bytes:
    """``report`` in one of :data:`FORMATS`. Raises :class:`InputError` for another name."""
    if form not in FORMATS:
        raise InputError(f"no format named {form!r}", fix=f"use one of text, {', '.join(FORMATS)}")
    return FORMATS[form](report)
