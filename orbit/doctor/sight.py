"""From facts to sightings: detectors, failed checks of the preflight, findings of the audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from orbit.core.findings import Finding, Severity
from orbit.doctor.catalog import Certainty, Symptom
from orbit.doctor.detect import DETECTORS
from orbit.doctor.diagnosis import AUDIT, Sighting
from orbit.doctor.facts import Facts
from orbit.launch.preflight.model import Check, State

ANY = "*"
"""In ``checks`` of a symptom: every check that no other symptom names."""
CERTAINTY: Mapping[Severity, Certainty] = {
    Severity.ERROR: Certainty.CERTAIN,
    Severity.WARNING: Certainty.POSSIBLE,
    Severity.NOTE: Certainty.POSSIBLE,
}


def sightings_of(facts: Facts, catalog: Mapping[str, Symptom]) -> tuple[Sighting, ...]:
    """Everything that is wrong by these facts, in order of the catalogue."""
    found: list[Sighting] = []
    for symptom in catalog.values():
        for name in symptom.detectors:
            found += _detected(symptom.id, name, facts)
    for check in facts.checks:
        found += _checked(check, catalog)
    for finding in facts.findings:
        found += _audited(finding, catalog)
    return tuple(found)


def _detected(symptom: str, name: str, facts: Facts) -> Iterator[Sighting]:
    for seen in DETECTORS[name](facts):
        yield Sighting(symptom=symptom, message=seen.message, certainty=seen.certainty, source=f"detector: {name}")


def _checked(check: Check, catalog: Mapping[str, Symptom]) -> Iterator[Sighting]:
    """A check that failed or warned, as the symptom that names it most closely."""
    if check.state not in (State.FAILED, State.WARNING):
        return
    for fits in (_told, _of_state, _of_name, _any):
        names = [symptom.id for symptom in catalog.values() if any(fits(each, check) for each in symptom.checks)]
        if names:
            break
    sure = Certainty.CERTAIN if check.state is State.FAILED else Certainty.LIKELY
    for name in names:
        yield Sighting(
            symptom=name, message=check.message, certainty=sure, source=f"preflight: {check.name}", fix=check.fix
        )


def _told(word: str, check: Check) -> bool:
    """``scratch=ENOSPC``: the code it found; ``driver~in this container``: words of its message."""
    code, text = check.found.get("error"), word.partition("~")[2]
    return bool(code and word == f"{check.name}={code}") or bool(
        text and word.startswith(f"{check.name}~") and text in check.message
    )


def _of_state(word: str, check: Check) -> bool:
    return word == f"{check.name}={check.state}"


def _of_name(word: str, check: Check) -> bool:
    return word == check.name


def _any(word: str, check: Check) -> bool:
    del check
    return word == ANY


def _audited(finding: Finding, catalog: Mapping[str, Symptom]) -> Iterator[Sighting]:
    """A finding, as each symptom that names its rule; those that none names are the audit's own matter."""
    if finding.severity is Severity.NOTE:
        return
    names = [symptom.id for symptom in catalog.values() if finding.rule in symptom.rules]
    for name in names:
        yield Sighting(
            symptom=name,
            message=f"{finding.subject}: {finding.message}",
            certainty=_sure(finding, len(names)),
            source=f"{AUDIT}{finding.rule}",
            fix=finding.fix,
        )


def _sure(finding: Finding, num_symptoms: int) -> Certainty:
    """A rule that is evidence for several symptoms proves none of them."""
    sure = CERTAINTY[finding.severity]
    return Certainty.LIKELY if sure is Certainty.CERTAIN and num_symptoms > 1 else sure


def unnamed(findings: Sequence[Finding], catalog: Mapping[str, Symptom]) -> int:
    """How many errors and warnings of the audit are no symptom of the catalogue."""
    named = {rule for symptom in catalog.values() for rule in symptom.rules}
    return sum(finding.severity is not Severity.NOTE and finding.rule not in named for finding in findings)
