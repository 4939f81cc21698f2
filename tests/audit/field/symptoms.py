"""The table of symptoms, and what a test shows of one: an artifact in which a rule fires, one in which it must not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orbit.core.findings import Finding, Severity
from orbit.core.records import Record, load_toml

type Judge = Callable[[Path], list[Finding]]
"""Writes an artifact below a folder and gives the findings of one rule about it."""


class Symptom(Record, frozen=True, kw_only=True):
    """One line of symptoms.toml."""

    number: int
    rules: tuple[str, ...] = ()
    what: str = ""
    run_time: str = ""


class Table(Record, frozen=True, kw_only=True):
    """The whole of symptoms.toml."""

    schema: int
    symptoms: tuple[Symptom, ...]
    cluster: tuple[Symptom, ...]


@dataclass(frozen=True)
class Case:
    """One cause, seen. ``numbers`` are those of the table, with a ``c`` in front for the second list."""

    numbers: str
    rule: str
    bad: Judge
    near: Judge
    says: str
    """Part of what the finding says, of its subject or of its evidence."""


def load_table() -> Table:
    """The table beside this file."""
    return load_toml(Path(__file__).with_name("symptoms.toml"), Table)


def check(case: Case, folder: Path) -> None:
    """Run both sides of a case."""
    found = [finding for finding in case.bad(folder / "bad") if finding.severity is not Severity.NOTE]
    assert found, f"{case.rule} says nothing"
    assert {finding.rule for finding in found} == {case.rule}
    texts = [f"{item.subject} {item.message} {' '.join(item.evidence.values())}" for item in found]
    assert any(case.says in text for text in texts), texts
    near = [finding for finding in case.near(folder / "near") if finding.severity is not Severity.NOTE]
    assert near == [], [f"{item.subject}: {item.message}" for item in near]
