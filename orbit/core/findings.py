"""A finding: one thing that is wrong, in a form that people, programs and the release gate can all read."""

from __future__ import annotations

from enum import StrEnum

from orbit.core.records import Record


class Severity(StrEnum):
    """How much a finding weighs. Only ``error`` makes a command fail."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(Record, frozen=True, kw_only=True):
    """What a rule saw."""

    rule: str
    """Stable id, e.g. ``lock-source`` or ``arch-coverage``; docs/rules.md has a section of this name."""
    severity: Severity
    subject: str
    """What it is about: package, file (relative to the target), container, symbol."""
    message: str
    """One sentence: what is wrong."""
    evidence: dict[str, str] = {}
    """The values seen, for whoever wants to check."""
    fix: str = ""
    """What to do next."""
    waiver: str = ""
    """Reason it was waived, with its expiry; a waived finding never fails a command."""

    @property
    def fatal(self) -> bool:
        """Whether this finding makes the check fail."""
        return self.severity is Severity.ERROR and not self.waiver


def error_finding(rule: str, subject: str, message: str, evidence: dict[str, str], fix: str) -> Finding:
    """A finding of severity ERROR."""
    return Finding(rule=rule, severity=Severity.ERROR, subject=subject, message=message, evidence=evidence, fix=fix)


class Skipped(Record, frozen=True, kw_only=True):
    """Work that was not done, and why. Shown in every report; never counted as success."""

    what: str
    reason: str
    estimate: str = ""
    """What doing it would cost, e.g. ``6.5 core-hours``."""
