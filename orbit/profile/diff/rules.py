"""What is known to follow from a change, as data: ``env/lock-diff.toml``."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from packaging.version import InvalidVersion, Version

from orbit.core.records import Record, load_toml
from orbit.errors import InputError
from orbit.profile.diff.records import Change, Weight

FILE = ("env", "lock-diff.toml")
When = Literal["any", "major", "minor", "feature", "presence"]


class Driver(Record, frozen=True, kw_only=True):
    """What a CUDA release asks of the host's driver."""

    cuda: str
    """``major.minor``."""
    own: str
    """The driver that came with the release: PTX of it and its newest features need that one."""
    minimum: str
    """The oldest driver that runs its machine code (minor version compatibility)."""


class Rename(Record, frozen=True, kw_only=True):
    """Two names of one thing; ``*`` stands for the same text in both."""

    a: str
    b: str
    reason: str

    def other(self, name: str) -> tuple[str, ...]:
        """What else ``name`` may be called: none, one or two names."""
        return tuple(
            found for here, there in ((self.a, self.b), (self.b, self.a)) if (found := _through(here, there, name))
        )


class Rule(Record, frozen=True, kw_only=True):
    """One consequence."""

    id: str
    weight: Weight
    title: str
    action: str
    computed: bool = False
    """Worked out by :mod:`orbit.profile.diff.consequences`; then ``packages`` is empty."""
    packages: tuple[str, ...] = ()
    """Names or shell patterns."""
    when: When = "any"
    """Which changes of them: any; another first number of the version (``major``), another of the first two
    (``minor``), each also when it came or went; another second number under the same first (``feature``); or only that
    it came or went (``presence``)."""

    def concerns(self, change: Change) -> bool:
        """Whether it follows from ``change``."""
        names = (change.name, change.was)
        if not any(fnmatchcase(name, pattern) for name in names if name for pattern in self.packages):
            return False
        present = change.kind not in ("added", "removed")
        match self.when:
            case "any":
                return True
            case "presence":
                return not present
            case "major":
                return not present or _numbers(change.old, 1) != _numbers(change.new, 1)
            case "minor":
                return not present or _numbers(change.old, 2) != _numbers(change.new, 2)
            case "feature":
                same = _numbers(change.old, 1) == _numbers(change.new, 1)
                return present and same and _numbers(change.old, 2) != _numbers(change.new, 2)


class Rules(Record, frozen=True, kw_only=True):
    """The whole file."""

    schema: int
    drivers: tuple[Driver, ...]
    renames: tuple[Rename, ...]
    consequences: tuple[Rule, ...]

    def driver(self, cuda: str) -> Driver | None:
        """What the release ``cuda`` asks of the host."""
        return next((driver for driver in self.drivers if driver.cuda == cuda), None)


def load_rules(root: Path, computed: frozenset[str]) -> Rules:
    """Read and check ``env/lock-diff.toml`` under ``root``; ``computed`` are the ids that code works out.

    Raises :class:`InputError` naming the entry at fault, also for a consequence that nothing could ever bring about.
    """
    path = root.joinpath(*FILE)
    rules = load_toml(path, Rules)
    if rules.schema != 1:
        raise InputError(f"{path}: schema {rules.schema} is not known", fix="this version of orbit reads schema 1")
    ids = [rule.id for rule in rules.consequences]
    repeated = sorted({name for name in ids if ids.count(name) > 1})
    if repeated:
        raise InputError(f"{path}: consequences: {', '.join(repeated)} listed twice", fix="keep one of them")
    for rule in rules.consequences:
        if rule.computed == bool(rule.packages):
            raise InputError(
                f"{path}: consequence {rule.id}: either computed = true, or packages", fix="choose one of the two"
            )
    stated = {rule.id for rule in rules.consequences if rule.computed}
    if stated != computed:
        raise InputError(
            f"{path}: computed consequences: {', '.join(sorted(stated ^ computed))} without the other half",
            fix="each has an entry here and a function in orbit/profile/diff/consequences.py",
        )
    for rename in rules.renames:
        if rename.a.count("*") != rename.b.count("*") or rename.a.count("*") > 1:
            raise InputError(f"{path}: rename {rename.a}, {rename.b}", fix="write one * in both names, or none")
    return rules


def _through(here: str, there: str, name: str) -> str:
    """``name``, read by the pattern ``here``, written by the pattern ``there``; empty when it does not fit."""
    if "*" not in here:
        return there if name == here else ""
    head, _, tail = here.partition("*")
    middle = name[len(head) : len(name) - len(tail)]
    fits = name.startswith(head) and name.endswith(tail) and middle and len(head) + len(tail) < len(name)
    return there.replace("*", middle) if fits else ""


def _numbers(version: str, count: int) -> tuple[int, ...] | str:
    try:
        return (*Version(version).release, 0, 0, 0)[:count]
    except InvalidVersion:
        return version
