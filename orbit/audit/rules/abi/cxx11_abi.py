"""cxx11-abi: extensions were compiled with the std::string that torch was compiled with.

libstdc++ has two. In mangled names the one before C++11 is ``Ss``, the other says ``__cxx11``; an extension of one kind
asks a torch of the other kind for functions that do not exist, hundreds of them for one reason. Which kind torch is
shows in what libc10.so exports. Wheels of torch have the new one from release 2.7 on.
"""

from __future__ import annotations

from collections.abc import Iterator

from orbit.audit.facts import Environment, SharedObject
from orbit.audit.files.objects import names_of
from orbit.audit.known.knowledge import SymbolFamily, symbol_family, symbols
from orbit.audit.known.policy import Policy
from orbit.audit.models.loader import loader_of
from orbit.audit.rules.abi.undefined_symbol import (
    NEW_STRING,
    Open,
    contradicting,
    has_new_strings,
    is_old_string,
    open_symbols,
    provider_of,
)
from orbit.core.findings import Finding, Severity

ID = "cxx11-abi"
TITLE = "extensions have the std::string of the torch they are used with"
SHOWN = 2


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per object of the other ABI."""
    families = [family for family in symbols().families if family.cxx11_probe]
    for found in open_symbols(env, policy):
        if found.family.cxx11_probe:
            yield from _contradiction(env, found)
    for family in families:
        if not any(family.cxx11_probe in names_of(item) for item in env.objects):
            yield from _alone(env, policy, family)


def _contradiction(env: Environment, found: Open) -> Iterator[Finding]:
    """An object whose open symbols have a std::string that the provider does not have."""
    strings = contradicting(env, found)
    if strings:
        new = bool(has_new_strings(env, found.family))
        mine, theirs = ("the old", "the new") if new else ("the new", "the old")
        yield _finding(
            env,
            found.item,
            f"compiled with {mine} std::string, {provider_of(env, found)} has {theirs}: loading it fails "
            f"({len(found.names)} undefined symbols)",
            severity=Severity.ERROR,
            strings=strings,
            wanted="TRUE" if new else "FALSE",
        )


def _alone(env: Environment, policy: Policy, family: SymbolFamily) -> Iterator[Finding]:
    """Objects of the old ABI in a target without the provider: a wheel that no current torch can load."""
    machine = loader_of(env, policy).machine
    for item in env.objects:
        if item.dynamic is None or item.machine != machine:
            continue
        names = [name for name in item.dynamic.undefined if symbol_family(name) == family.name]
        old = tuple(name for name in names if is_old_string(name))
        if old and not any(NEW_STRING in name for name in names):
            yield _finding(
                env,
                item,
                f"compiled with the old std::string: wheels of {family.name} have the new one from release 2.7 on",
                severity=Severity.WARNING,
                strings=old,
                wanted="TRUE",
            )


def _finding(
    env: Environment, item: SharedObject, message: str, *, severity: Severity, strings: tuple[str, ...], wanted: str
) -> Finding:
    owner = env.owners.get(item.path, "") or "it"
    return Finding(
        rule=ID,
        severity=severity,
        subject=env.in_site(item.path),
        message=message,
        evidence={"symbols": ", ".join(strings[:SHOWN])},
        fix=f"build {owner} from source in this environment, or take its wheel with cxx11abi{wanted} in the name",
    )
