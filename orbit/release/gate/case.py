"""One requirement being judged, and what comes of it. Pure: nothing here reads a file or a clock."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from orbit.core.findings import Skipped
from orbit.core.records import Record
from orbit.release.evidence import Result
from orbit.release.gate.facts import Evidence, Problem
from orbit.release.gate.model import Definition, Requirement, SkipWaiver

SHIP = "./orbitw ship --profile {profile}"
SHOWN = 3


class Mark(StrEnum):
    """What became of a requirement, or of a part of it."""

    MET = "met"
    UNPROVEN = "unproven"
    """Nobody showed it, and a release may say so."""
    MISSING = "missing"
    """The evidence is not there."""
    REFUSED = "refused"
    """The evidence is there, and it says no, or does not count."""


class Judgement(Record, frozen=True, kw_only=True):
    """One answer."""

    requirement: str
    subject: str = ""
    """The part that it is about: ``uid 0``, ``h100``, a recipe; empty for the whole."""
    mark: Mark
    reason: str
    """What was seen."""
    file: str = ""
    """The evidence."""
    fix: str = ""
    """What to do next, for everything that is not met."""


@dataclass(frozen=True, slots=True)
class Case:
    """One requirement and everything that its function may look at."""

    requirement: Requirement
    evidence: Evidence
    definition: Definition
    now: dt.datetime

    @property
    def ship(self) -> str:
        """The command that makes a run of this profile."""
        return SHIP.format(profile=self.evidence.profile.name)

    @property
    def today(self) -> dt.date:
        """The day of the decision, UTC."""
        return self.now.astimezone(dt.UTC).date()

    def met(self, reason: str, *, subject: str = "", file: str = "") -> Judgement:
        """It is shown."""
        return self._judged(Mark.MET, reason, subject, file, "")

    def unproven(self, reason: str, *, fix: str, subject: str = "", file: str = "") -> Judgement:
        """Nobody showed it."""
        return self._judged(Mark.UNPROVEN, reason, subject, file, fix)

    def missing(self, reason: str, *, fix: str, subject: str = "", file: str = "") -> Judgement:
        """The evidence is not there."""
        return self._judged(Mark.MISSING, reason, subject, file, fix)

    def refused(self, reason: str, *, fix: str, subject: str = "", file: str = "") -> Judgement:
        """The evidence says no, or does not count."""
        return self._judged(Mark.REFUSED, reason, subject, file, fix)

    def _judged(self, mark: Mark, reason: str, subject: str, file: str, fix: str) -> Judgement:
        name = self.requirement.name
        return Judgement(requirement=name, subject=subject, mark=mark, reason=reason, file=file, fix=fix)

    def problem(self, problem: Problem, *, subject: str = "") -> Judgement:
        """A file that is no evidence."""
        judge = self.missing if problem.absent else self.refused
        return judge(problem.what, subject=subject, file=problem.file, fix=problem.fix)

    def lacking(self, file: str, what: str, *, fix: str = "") -> Judgement:
        """A file of the run that gave nothing: it is not there (``what``), or it is and cannot be used."""
        wrong = next((item for item in self.evidence.problems if item.file == file and not item.absent), None)
        if wrong is not None:
            return self.refused(f"cannot be used: it {wrong.what}", file=file, fix=wrong.fix)
        return self.missing(what, file=file, fix=fix or self.ship)

    def age(self, when: str | dt.datetime | None, *, file: str, fix: str, subject: str = "") -> Judgement | None:
        """None when evidence of the moment ``when`` counts today; else why not: undated, too old, from the future."""
        moment = _moment(when)
        if moment is None:
            return self.refused(f"says no usable moment ({when!r})", subject=subject, file=file, fix=fix)
        ahead = moment - self.now
        if ahead > dt.timedelta(minutes=self.definition.clock_minutes):
            said = f"is dated {moment:%Y-%m-%d %H:%M} UTC, which is in the future: it is {self.now:%Y-%m-%d %H:%M} here"
            clock = "set the clock that is wrong (timedatectl); if it was the other machine's, make the evidence again"
            return self.refused(said, subject=subject, file=file, fix=clock)
        days = -ahead / dt.timedelta(days=1)
        if days > self.requirement.max_age_days:
            said = f"is of {moment:%Y-%m-%d}, {days:.0f} days old; at most {self.requirement.max_age_days} count"
            return self.refused(said, subject=subject, file=file, fix=fix)
        return None

    def stage(self, name: str, *, file: str = "") -> Judgement | None:
        """None when that stage of the run passed lately; else what is wrong with it."""
        record, where = self.evidence.stage(name), file or "summary.json"
        if record is None:
            return self.lacking(where, f"the run has no record of stage {name}")
        if record.result is Result.SKIPPED:
            return self.missing(f"stage {name} was skipped: {record.reason}", file=where, fix=self.ship)
        fatal = [finding for finding in record.findings if finding.fatal]
        if record.result is Result.FAILED or fatal:
            first = f"{fatal[0].rule} {fatal[0].subject}: {fatal[0].message}" if fatal else record.reason
            more = f" (and {len(fatal) - 1} more)" if len(fatal) > 1 else ""
            fix = fatal[0].fix if fatal and fatal[0].fix else self.ship
            return self.refused(f"stage {name} failed: {_line(first)}{more}", file=where, fix=fix)
        return self.age(record.started, file=where, fix=self.ship)

    def left_out(self, stage: str, parts: tuple[Skipped, ...], file: str) -> Iterator[Judgement]:
        """What was not done and is not waived; a waiver that has run out is judged with the waivers."""
        for part in parts:
            if self.waiver(stage, part.what) is None:
                yield self.refused(
                    f"was left out: {_line(part.reason)}",
                    subject=part.what,
                    file=file,
                    fix="do it, or accept it with a reason and an end: [[waivers.skipped]] in ci/gate.toml",
                )

    def waiver(self, stage: str, what: str) -> SkipWaiver | None:
        """The gate's own waiver for a part of a stage that was left out."""
        name = self.evidence.profile.name
        return next((item for item in self.definition.waivers.skipped if item.covers(stage, what, name)), None)


def _moment(when: str | dt.datetime | None) -> dt.datetime | None:
    """``when`` with its time zone; None when it is no moment, or nobody knows of which zone."""
    if isinstance(when, str):
        try:
            when = dt.datetime.fromisoformat(when)
        except ValueError:
            return None
    return when if when is not None and when.tzinfo is not None else None


def _line(text: str) -> str:
    """The first line of ``text``."""
    return (text.strip().splitlines() or [""])[0]


def listed(names: list[str]) -> str:
    """The first few of ``names`` in a sentence."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
