"""Smoke lists and results. Plain dataclasses: this runs where only the interpreter is certain to work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from orbit.errors import InputError

SCHEMA = 1
PASSED = "passed"
FAILED = "failed"
NEEDS_DRIVER = "needs-driver"
SKIPPED = "skipped"
RESULTS = (PASSED, FAILED, NEEDS_DRIVER, SKIPPED)
NEEDS = ("none", "gpu")
EXPECT = (PASSED, NEEDS_DRIVER)
DEFAULT_TIMEOUT_S = 120.0


class CheckError(Exception):
    """The thing under test is not right; the message is what people read in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One entry of a smoke list."""

    name: str
    kind: str
    """Which function judges it: a key of ``orbit.smoke.checks.KINDS``."""
    needs: str = "none"
    """``gpu``: skipped, with the reason, on a machine without a usable CUDA device."""
    expect: str = PASSED
    """``needs-driver``: without ``libcuda.so.1`` it must fail naming just that library; with a driver it must pass."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeList:
    """One file of ``containers/smoke``."""

    name: str
    checks: tuple[Check, ...]
    uids: tuple[int, ...] = (0, 65534)
    """User ids the list is run as, one run each."""
    schema: int = SCHEMA
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One GPU target of the profile, as far as checks need it."""

    name: str
    capability: str
    sass: str
    feature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a check may compare with."""

    prefix: str = ""
    """Absolute path every module must come from; empty when files are carried and the place does not matter."""
    cuda: str = ""
    """The profile's CUDA release, ``13.0``."""
    targets: tuple[Target, ...] = ()
    lock: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Locked versions by normalised distribution name; empty when the caller has no lock."""
    uid: int | None = None
    """The user the run is meant to be; None when whoever started it is fine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What became of one check."""

    check: str
    kind: str
    result: str
    """One of :data:`RESULTS`. Only ``passed`` and a verified ``needs-driver`` are good."""
    seconds: float
    detail: str = ""
    """One line: the cause of a failure, the reason of a skip, what was proved otherwise."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    tail: str = ""
    """The end of the output, when it failed."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def parse_list(data: Mapping[str, Any], where: str) -> SmokeList:
    """Validate a smoke list; unknown keys, kinds of need and duplicate names are refused with their place."""
    top = _closed(data, SmokeList, where)
    if top.get("schema") != SCHEMA:
        raise InputError(f"{where}: schema = {top.get('schema')!r}", fix=f"this version of orbit reads schema {SCHEMA}")
    entries = top.get("checks")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{where}: no checks", fix="a list that checks nothing proves nothing: add [[checks]]")
    checks = tuple(_parse_check(entry, f"{where}: checks[{index}]") for index, entry in enumerate(entries))
    names = [check.name for check in checks]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{where}: check names used twice: {', '.join(twice)}", fix="give each check its own name")
    uids = tuple(top.get("uids", SmokeList.__dataclass_fields__["uids"].default))
    if not uids or not all(isinstance(uid, int) and uid >= 0 for uid in uids):
        raise InputError(f"{where}: uids = {list(uids)!r}", fix="write user ids, e.g. uids = [0, 65534]")
    return SmokeList(name=str(top["name"]), checks=checks, uids=uids, description=str(top.get("description", "")))


def parse_context(data: Mapping[str, Any]) -> Context:
    """Read a context from plain data (what :func:`dataclasses.asdict` gave, after JSON)."""
    return Context(
        prefix=str(data.get("prefix", "")),
        cuda=str(data.get("cuda", "")),
        targets=tuple(Target(**target) for target in data.get("targets", ())),
        lock={name: tuple(versions) for name, versions in data.get("lock", {}).items()},
        uid=data.get("uid"),
    )


def _parse_check(data: object, where: str) -> Check:
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: not a table", fix="write each check as [[checks]]")
    values = _closed(data, Check, where)
    check = Check(**values)
    for key, allowed in (("needs", NEEDS), ("expect", EXPECT)):
        if getattr(check, key) not in allowed:
            raise InputError(f"{where}: {key} = {getattr(check, key)!r}", fix=f"use one of: {', '.join(allowed)}")
    if isinstance(check.timeout_s, bool) or not isinstance(check.timeout_s, int | float) or check.timeout_s <= 0:
        raise InputError(f"{where}: timeout_s = {check.timeout_s!r}", fix="write seconds above zero")
    if not isinstance(check.parameters, Mapping):
        raise InputError(f"{where}: parameters is not a table", fix="write [checks.parameters]")
    return check


def _closed(data: Mapping[str, Any], kind: type, where: str) -> dict[str, Any]:
    """``data`` as keyword arguments for ``kind``: nothing unknown, nothing required missing, strings are strings."""
    known = {item.name: item for item in fields(kind)}
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise InputError(f"{where}: unknown key {', '.join(unknown)}", fix=f"known keys: {', '.join(sorted(known))}")
    for name in ("name", "kind"):
        if name in known and not (isinstance(data.get(name), str) and data[name]):
            raise InputError(f"{where}: {name} is missing or not a text", fix=f'add {name} = "..."')
    return dict(data)
