"""What can be wrong: the symptoms of ``env/symptoms``, read and checked as a whole.

A symptom is what a person sees, why, and what to do; and how it is recognised: in the text of an error (patterns), on a
machine (a detector, rules of the audit, checks of the preflight), or not, with the reason.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Literal

import msgspec

from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.doctor.patterns import Pattern, compile_pattern
from orbit.errors import InputError

SCHEMA = 1
FOLDER = ("env", "symptoms")
ID = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)+$")
LISTS: Mapping[str, int] = {"toolchain": 78, "reports": 25, "cluster": 26}
"""The lists of known failures that the catalogue answers for, with how many each has: a symptom names those that are
its own as ``toolchain:24``."""

type Where = Literal["build", "environment", "node", "container", "job", "cluster"]


class Certainty(StrEnum):
    """What recognising a symptom proves: its cause and nothing else; its cause most of the time; one cause of many."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Symptom(Record, frozen=True, kw_only=True):
    """One entry."""

    id: str
    title: str
    """The cause in a few words, as a heading."""
    lists: tuple[str, ...] = ()
    """Which entries of :data:`LISTS` it answers for."""
    where: tuple[Where, ...]
    sees: str
    """What a person sees."""
    cause: str
    fix: tuple[str, ...]
    """What to do, the first thing first. Commands are in backticks."""
    certainty: Certainty = Certainty.CERTAIN
    """What a match of its text proves."""
    patterns: tuple[str, ...] = ()
    untold: str = ""
    """Why no text names it; empty when there are patterns."""
    detectors: tuple[str, ...] = ()
    """Functions of :mod:`orbit.doctor.detect` that see it on a machine or in an environment."""
    rules: tuple[str, ...] = ()
    """Rules of the audit whose findings are this (``--deep``)."""
    checks: tuple[str, ...] = ()
    """Checks of the preflight whose failure is this: a name; ``name=failed`` or ``name=warning``; ``name=ENOSPC`` for
    what it found; ``name~words`` for words of its message; ``*`` for all that nobody names. The closest one counts."""
    manifest: tuple[str, ...] = ()
    """Rules of `orbit launch lint` that see it in a manifest, before anything runs."""
    unseen: str = ""
    """Why nothing sees it on a machine; empty when something does."""
    file: str = ""
    """Which file of the folder it stands in; not written there."""
    after: tuple[str, ...] = ()
    """Symptoms that may be its cause: where one of these is found, too, this one is only what follows from it."""

    @property
    def live(self) -> bool:
        """Whether something sees it on a machine or in an environment."""
        return bool(self.detectors or self.rules or self.checks)


class SymptomFile(Record, frozen=True, kw_only=True):
    """One file of ``env/symptoms``."""

    schema: int
    symptoms: tuple[Symptom, ...]


@functools.cache
def load_catalog() -> Mapping[str, Symptom]:
    """Every symptom by its id, in order of the files. Raises :class:`InputError` for what contradicts itself."""
    folder = data_file(*FOLDER)
    found = [symptom for path in sorted(folder.glob("*.toml")) for symptom in _read(path)]
    problem = next(problems(found), "")
    if problem or not found:
        raise InputError(f"{folder}: {problem or 'no symptoms'}", fix="correct the entry named")
    return {symptom.id: symptom for symptom in found}


@functools.cache
def patterns_of(name: str) -> tuple[Pattern, ...]:
    """The compiled patterns of a symptom. Raises :class:`InputError`."""
    return tuple(compile_pattern(text) for text in load_catalog()[name].patterns)


def _read(path: Path) -> tuple[Symptom, ...]:
    file = load_toml(path, SymptomFile)
    if file.schema != SCHEMA:
        raise InputError(f"{path}: schema = {file.schema}", fix=f"this version of orbit reads schema {SCHEMA}")
    return tuple(msgspec.structs.replace(symptom, file=path.stem) for symptom in file.symptoms)


def problems(symptoms: list[Symptom]) -> Iterator[str]:
    """What is wrong with a set of symptoms; patterns are checked when they are compiled."""
    names = Counter(symptom.id for symptom in symptoms)
    yield from (f"{name}: {count} entries" for name, count in names.items() if count > 1)
    for symptom in symptoms:
        if not ID.match(symptom.id):
            yield f"{symptom.id}: not an id: two words or more of a-z and 0-9, joined by '-'"
        if not (symptom.where and symptom.fix and all((symptom.title, symptom.sees, symptom.cause))):
            yield f"{symptom.id}: title, where, sees, cause and fix are needed"
        if bool(symptom.patterns) == bool(symptom.untold):
            yield f"{symptom.id}: patterns, or untold with the reason; not both"
        if symptom.live == bool(symptom.unseen):
            yield f"{symptom.id}: a detector, rules or checks, or unseen with the reason; not both"
        for cause in symptom.after:
            if cause not in names:
                yield f"{symptom.id}: after: there is no {cause}"
        for entry in symptom.lists:
            name, _, number = entry.partition(":")
            if name not in LISTS or not number.isdecimal() or not 1 <= int(number) <= LISTS[name]:
                yield f"{symptom.id}: lists: there is no {entry}"
    yield from _circles({symptom.id: symptom.after for symptom in symptoms})


def _circles(after: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for name in after:
        reached: set[str] = set()
        pending = list(after[name])
        while pending:
            cause = pending.pop()
            if cause not in reached:
                reached.add(cause)
                pending += after.get(cause, ())
        if name in reached:
            yield f"{name}: is its own cause, by way of after"
