"""What was found, in the order in which it is worth a person's time, and why in that order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from orbit.core.findings import Skipped
from orbit.core.records import Record
from orbit.doctor.catalog import Certainty, Symptom
from orbit.doctor.scan import Hit

SCHEMA = "orbit.doctor/1"
AUDIT = "audit: "
"""Begins the source of what the audit saw."""
MOST_EVIDENCE = 6
MOST_FIXES = 6


class Sighting(Record, frozen=True, kw_only=True):
    """A symptom seen on a machine or in an environment."""

    symptom: str
    message: str
    """One sentence: the value found, and the limit."""
    certainty: Certainty = Certainty.CERTAIN
    source: str = ""
    """Who saw it: a detector, ``audit: RULE``, ``preflight: CHECK``."""
    fix: str = ""
    """What to do about this very thing; before what the catalogue says."""


class Cause(Record, frozen=True, kw_only=True):
    """One thing that is wrong."""

    symptom: str
    title: str
    certainty: Certainty
    follows_from: str = ""
    """The cause of this one, when that was found, too."""
    why_here: str
    """Why it stands at this place."""
    evidence: tuple[str, ...]
    """What was seen, or the lines that name it."""
    line: int = 0
    """Of the text, counted from 1; 0: not from a text."""
    sees: str
    cause: str
    fix: tuple[str, ...]


class Look(Record, frozen=True, kw_only=True):
    """Something that was looked at."""

    what: str
    seconds: float


class Diagnosis(Record, frozen=True, kw_only=True):
    """The answer."""

    schema: str = SCHEMA
    orbit: str
    asked: str
    """``machine``, or ``text`` with the name of the file it came from."""
    causes: tuple[Cause, ...]
    looked: tuple[Look, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    others: int = 0
    """Errors and warnings of the audit that are no known symptom: ``orbit audit`` shows them."""
    near: tuple[str, ...] = ()
    """Where nothing matches: entries that share rare words with the text. A guess."""
    lines: int = 0
    """Lines of the text."""
    bytes: int = 0


def rank(
    catalog: Mapping[str, Symptom], *, sightings: Sequence[Sighting] = (), hits: Iterable[Hit] = ()
) -> tuple[Cause, ...]:
    """The causes found, the one to look at first at the front.

    Order: what nothing else found explains; then how sure it is; then what is seen on the machine, in the files of the
    environment, or said by a text; then the earlier line of the text; then how much the matching pattern says; then the
    name. What follows from a cause stands directly behind it.
    """
    by_symptom: dict[str, list[Sighting]] = {}
    for sighting in sightings:
        by_symptom.setdefault(sighting.symptom, []).append(sighting)
    by_text = {hit.symptom: hit for hit in hits}
    by_text = {name: hit for name, hit in by_text.items() if not _restated(catalog[name], hit, by_text)}
    found = [name for name in catalog if name in by_symptom or name in by_text]
    causes = {name: _cause(catalog[name], by_symptom.get(name, []), by_text.get(name)) for name in found}

    def key(name: str) -> tuple[int, int, int, int, str]:
        cause, hit = causes[name], by_text.get(name)
        sure = list(Certainty).index(cause.certainty)
        return sure, _how(by_symptom.get(name, [])), cause.line, -hit.weight if hit else 0, name

    order = sorted(found, key=key)
    parents = {name: next((each for each in order if each in catalog[name].after), "") for name in order}
    placed: list[str] = []
    for name in order:
        if not parents[name]:
            _place(name, order, parents, placed)
    return tuple(_with_reason(causes[name], parents[name], order, by_symptom) for name in placed)


def _how(sightings: list[Sighting]) -> int:
    """0: seen on the machine, 1: in the files of the environment, 2: said by a text."""
    return min((int(each.source.startswith(AUDIT)) for each in sightings), default=2)


def _restated(symptom: Symptom, hit: Hit, hits: Mapping[str, Hit]) -> bool:
    """Whether the very line is known as a cause of this one already, more closely."""
    return any(cause in hits and hits[cause].line == hit.line for cause in symptom.after)


def _place(name: str, order: list[str], parents: Mapping[str, str], placed: list[str]) -> None:
    placed.append(name)
    for child in order:
        if parents[child] == name:
            _place(child, order, parents, placed)


def _cause(symptom: Symptom, sightings: list[Sighting], hit: Hit | None) -> Cause:
    sure = [each.certainty for each in sightings] + ([symptom.certainty] if hit else [])
    evidence = [each.message for each in sightings]
    if len(evidence) > MOST_EVIDENCE:
        evidence = [*evidence[:MOST_EVIDENCE], f"and {len(evidence) - MOST_EVIDENCE} more"]
    if hit:
        evidence.append(f"line {hit.line}: {hit.text}")
    return Cause(
        symptom=symptom.id,
        title=symptom.title,
        certainty=min(sure, key=list(Certainty).index),
        why_here="",
        evidence=tuple(evidence),
        line=hit.line if hit else 0,
        sees=symptom.sees,
        cause=symptom.cause,
        fix=tuple(dict.fromkeys((*(each.fix for each in sightings if each.fix), *symptom.fix)))[:MOST_FIXES],
    )


def _with_reason(cause: Cause, parent: str, order: list[str], seen: Mapping[str, object]) -> Cause:
    if parent:
        why = f"{parent} was found, too, and causes this: mend that first"
    elif len(order) == 1:
        why = "nothing else was found"
    else:
        how = "seen here" if cause.symptom in seen else f"first named in line {cause.line}"
        why = f"{SURE[cause.certainty]}; {how}; nothing else that was found causes it"
    return msgspec.structs.replace(cause, follows_from=parent, why_here=why)


SURE: Mapping[Certainty, str] = {
    Certainty.CERTAIN: "what was seen has no other cause",
    Certainty.LIKELY: "what was seen mostly has this cause",
    Certainty.POSSIBLE: "what was seen can have this cause, among others",
}
