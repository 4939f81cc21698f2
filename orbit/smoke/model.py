"""Smoke lists and results. Plain dataclasses: this runs where only the interpreter is certain to work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass
from typing import Any

from orbit.errors import InputError

SCHEMA = 1
PASSED = "passed"
FAILED = "failed"
NEEDS_DRIVER = "needs-driver"
SKIPPED = "skipped"
RESULTS = (PASSED, FAILED, NEEDS_DRIVER, SKIPPED)
NEEDS = ("cpu", "gpu")
EXPECT = (PASSED, NEEDS_DRIVER)
DEFAULT_TIMEOUT_S = 120.0
DEFAULT_MEMORY_MB = {"cpu": 8192, "gpu": 32768}
"""Of main memory, by what a check needs: pinned buffers of a GPU's driver count."""


class CheckError(Exception):
    """The thing under test is not right; the message is what people read in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One entry of a smoke list."""

    name: str
    kind: str
    """Which function judges it: a key of ``orbit.smoke.checks.KINDS``."""
    needs: str = "cpu"
    """``gpu``: skipped, with the reason, on a machine without a usable CUDA device."""
    gpus: int = 1
    """With ``needs = "gpu"``: how many must be there; skipped, with the reason, where there are fewer."""
    target: str = ""
    """With ``needs = "gpu"``: only on devices of this target of the profile; skipped on others."""
    expect: str = PASSED
    """``needs-driver``: without ``libcuda.so.1`` it must fail naming just that library; with a driver it must pass."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    memory_mb: int = 0
    """Private memory (MiB) of the check and all it starts; it is stopped above that. 0: :data:`DEFAULT_MEMORY_MB`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def memory_budget_mb(self) -> int:
        """``memory_mb``, or what its kind of check has by default."""
        return self.memory_mb or DEFAULT_MEMORY_MB[self.needs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What an engine gives the container beside a read-only root and no network. Nothing of it holds in place."""

    tmp_mb: int = 4096
    """Size of the tmpfs on /tmp, MiB; programs may be run from it. 0: there is none, /tmp cannot be written."""
    shm_mb: int = 1024
    """Size of /dev/shm, MiB."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the caller of the container sets, e.g. ``{HOME = ""}``; wins over the image's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeList:
    """One file of ``containers/smoke``."""

    name: str
    checks: tuple[Check, ...]
    uids: tuple[int, ...] = (0, 65534)
    """User ids the list is run as, one run each."""
    conditions: Conditions = field(default_factory=Conditions)
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
    in_place: bool = False
    """No engine made the conditions: it runs in a job, on whatever root and network that has."""


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
    peak_mb: int = 0
    """Most private memory seen, MiB; sampled, so a short peak may be missed."""

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
    conditions = parse_conditions(top.get("conditions", {}), f"{where}: conditions")
    return SmokeList(
        name=str(top["name"]),
        checks=checks,
        uids=uids,
        conditions=conditions,
        description=str(top.get("description", "")),
    )


def parse_conditions(data: object, where: str) -> Conditions:
    """Read and check a ``[conditions]`` table."""
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: not a table", fix="write it as [conditions]")
    values = _closed(data, Conditions, where)
    for key in ("tmp_mb", "shm_mb"):
        if not _whole(values.get(key, 0), 0):
            raise InputError(f"{where}: {key} = {values[key]!r}", fix="write whole MiB")
    variables = values.get("variables", {})
    if not isinstance(variables, Mapping) or not all(isinstance(value, str) for value in variables.values()):
        raise InputError(f"{where}: variables is not a table of texts", fix='write variables = {HOME = ""}')
    return Conditions(**values)


def plan_of(smoke: SmokeList, context: Context) -> dict[str, Any]:
    """List and context as plain data for the process in an image; what is by default is left out, so that an image
    with an older copy of this module refuses only what it really does not know."""
    return {"list": _told(smoke), "context": _told(context)}


def _told(value: Any) -> Any:
    if is_dataclass(value):
        return {
            item.name: _told(getattr(value, item.name))
            for item in fields(value)
            if item.name == "schema" or getattr(value, item.name) != _default(item)
        }
    if isinstance(value, tuple | list):
        return [_told(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _default(item: Field[Any]) -> Any:
    return item.default_factory() if item.default_factory is not MISSING else item.default


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def parse_context(data: Mapping[str, Any]) -> Context:
    """Read a context from plain data (what :func:`dataclasses.asdict` gave, after JSON)."""
    return Context(
        prefix=str(data.get("prefix", "")),
        cuda=str(data.get("cuda", "")),
        targets=tuple(Target(**target) for target in data.get("targets", ())),
        lock={name: tuple(versions) for name, versions in data.get("lock", {}).items()},
        uid=data.get("uid"),
        in_place=bool(data.get("in_place", False)),
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
    if not _whole(check.memory_mb, 0) or not _whole(check.gpus, 1):
        raise InputError(f"{where}: memory_mb = {check.memory_mb!r}, gpus = {check.gpus!r}", fix="write whole numbers")
    if check.needs != "gpu" and (check.gpus != 1 or check.target):
        raise InputError(f"{where}: gpus or target of a check without a GPU", fix='add needs = "gpu"')
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
