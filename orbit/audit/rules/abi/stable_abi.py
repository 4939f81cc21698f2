"""stable-abi: a module that says it works with every later Python uses only what every later Python has.

``cp310-abi3`` and ``.abi3.so`` promise that one file serves CPython 3.10 and all after it. A symbol outside the stable
ABI may change or vanish in any release; one that joined it after the floor is missing from the oldest Pythons promised.
What is stable since when: ``abi3info``, made from CPython's own ``Misc/stable_abi.toml``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from abi3info import DATAS, FUNCTIONS

from orbit.audit.facts import Distribution, Environment, SharedObject
from orbit.audit.known.policy import Policy
from orbit.audit.rules.abi.foreign_extension import ABI3_TAG, TAGGED
from orbit.audit.rules.abi.wheel_tag import tags_of
from orbit.core.findings import Finding, Severity

ID = "stable-abi"
TITLE = "modules for the stable ABI use nothing outside it"
SHOWN = 8
PYTHON_SYMBOL = re.compile(r"^_?Py(?!Init_|InitU_|ModExport_)(?:_|[A-Z])\w*$")
"""Names that CPython keeps for itself; the entry points of modules left out."""
CP_TAG = re.compile(r"^cp3(\d+)-")


@functools.cache
def stable_since() -> Mapping[str, int]:
    """Minor release of Python 3 in which a function or variable joined the stable ABI, by symbol name."""
    return {symbol.name: item.added.minor for table in (FUNCTIONS, DATAS) for symbol, item in table.items()}


@dataclass(slots=True)
class Used:
    """What one distribution uses of CPython, by symbol: files relative to site-packages."""

    floor: int
    unstable: dict[str, set[str]] = field(default_factory=dict)
    later: dict[str, set[str]] = field(default_factory=dict)


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per distribution with unstable symbols, one per distribution with later ones."""
    for subject, used in sorted(used_of(env).items()):
        promise = f"promises to work with every Python from 3.{used.floor} on"
        if used.unstable:
            count = len(used.unstable)
            yield Finding(
                rule=ID,
                severity=Severity.ERROR if env.kind == "wheels" else Severity.WARNING,
                subject=subject,
                message=f"{promise}, and uses {count} symbol{'s' if count > 1 else ''} of CPython that "
                f"{'are' if count > 1 else 'is'} not in the stable ABI",
                evidence=_evidence(used.unstable, str),
                fix="compile it with Py_LIMITED_API, or tag the wheel for one interpreter",
            )
        if used.later:
            newest = max(stable_since()[symbol] for symbol in used.later)
            yield Finding(
                rule=ID,
                severity=Severity.WARNING,
                subject=subject,
                message=f"{promise}, and uses symbols that are in the stable ABI from 3.{newest} on only",
                evidence=_evidence(used.later, lambda symbol: f"{symbol} (3.{stable_since()[symbol]})"),
                fix=f"compile it with Py_LIMITED_API of the floor, or raise the floor to cp3{newest}",
            )


def used_of(env: Environment) -> dict[str, Used]:
    """What modules for the stable ABI use beyond it, by wheel file or distribution."""
    dists = {dist.name: dist for dist in env.dists}
    exported = {name for table in env.exports.values() for name, _version in table}
    found: dict[str, Used] = {}
    for item in env.objects:
        owner = env.owners.get(item.path, "")
        floor = floor_of(item, dists.get(owner), env)
        if floor is None or item.dynamic is None:
            continue
        file = env.in_site(item.path)
        used = found.setdefault((dists[owner].wheel_file or owner) if owner in dists else file, Used(floor))
        for symbol in item.dynamic.undefined:
            if not PYTHON_SYMBOL.match(symbol) or symbol in exported:
                continue
            since = stable_since().get(symbol)
            if since is None:
                used.unstable.setdefault(symbol, set()).add(file)
            elif since > floor and (env.kind == "wheels" or since > env.layout.python[1]):
                used.later.setdefault(symbol, set()).add(file)
    return found


def floor_of(item: SharedObject, dist: Distribution | None, env: Environment) -> int | None:
    """The oldest Python 3 that a file promises to work with; None when it promises one only.

    A wheel's tag counts for all of its files but those that name an interpreter; without an ``abi3`` tag the file name
    ``.abi3.so`` counts, and the floor is the Python the wheel is for.
    """
    name = item.path.rpartition("/")[2]
    if TAGGED.match(name):
        return None
    tags = tags_of(dist) if dist else frozenset()
    floors = [int(match[1]) for tag in tags if (match := ABI3_TAG.match(tag))]
    if floors:
        return min(floors)
    if ".abi3." not in name:
        return None
    own = [int(match[1]) for tag in tags if (match := CP_TAG.match(tag))]
    return min(own, default=env.layout.python[1])


def _evidence(symbols: Mapping[str, set[str]], show: Callable[[str], str]) -> dict[str, str]:
    files = sorted({path for paths in symbols.values() for path in paths})
    return {"symbols": _some([show(symbol) for symbol in sorted(symbols)]), "files": _some(files)}


def _some(items: list[str]) -> str:
    rest = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return ", ".join(items[:SHOWN]) + rest
