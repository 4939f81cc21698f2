"""symbol-version: every versioned symbol that a shared object needs exists in the library that the loader would pick.

A library that is one release too old loads, and the process dies at the first ``import`` with an undefined symbol; the
wheel's own metadata may allow it. Versions of base-image libraries (glibc, libstdc++) are compared with the highest
version that the base image defines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from orbit.audit.binary.dynamic import Dynamic, Export, Import
from orbit.audit.facts import Environment, SharedObject
from orbit.audit.known.policy import Policy
from orbit.audit.models.loader import Loader, loader_of
from orbit.core.findings import Finding, Severity

ID = "symbol-version"
TITLE = "every versioned symbol exists in the library that is loaded"
SHOWN = 5


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per shared object and library that lacks something it needs."""
    loader = loader_of(env, policy)
    for item in env.objects:
        if item.dynamic is None or item.machine != loader.machine:
            continue
        for library, wanted in _wanted(item.dynamic).items():
            resolution = loader.resolve(item, library)
            if resolution.how == "base":
                yield from _above_base(env, policy, item, library, wanted.versions)
            for provider in resolution.paths:
                lacking = _lacking(
                    env, loader, item, provider=provider, rivals=resolution.paths, imports=wanted.imports
                )
                undefined = _undefined(loader.objects[provider].dynamic, wanted.versions)
                if lacking or undefined:
                    yield _finding(env, item, provider, how=resolution.how, lacking=lacking, undefined=undefined)


@dataclass(slots=True)
class _Wanted:
    """What one object wants of one library."""

    versions: list[str] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)


def _wanted(dynamic: Dynamic) -> dict[str, _Wanted]:
    """By soname, weak references left out: the loader does without them."""
    found: dict[str, _Wanted] = defaultdict(_Wanted)
    for need in dynamic.needs:
        if not need.weak:
            found[need.library].versions.append(need.version)
    for symbol in dynamic.imports:
        if not symbol.weak:
            found[symbol.library].imports.append(symbol)
    return found


def _lacking(
    env: Environment,
    loader: Loader,
    item: SharedObject,
    *,
    provider: str,
    rivals: tuple[str, ...],
    imports: list[Import],
) -> list[Import]:
    """Imports that neither the provider nor anything else the object pulls in (its rivals left out) exports."""
    exports = env.exports.get(provider, frozenset())
    open_imports = [symbol for symbol in imports if not _exported(exports, symbol)]
    if not open_imports:
        return []
    others = [env.exports.get(path, frozenset()) for path in loader.closure(item) - set(rivals)]
    return [symbol for symbol in open_imports if not any(_exported(table, symbol) for table in others)]


def _exported(exports: frozenset[Export], symbol: Import) -> bool:
    # a definition without a version satisfies every reference (glibc, elf/dl-lookup.c, check_match)
    return Export(symbol.name, symbol.version) in exports or Export(symbol.name, "") in exports


def _undefined(provider: Dynamic | None, versions: list[str]) -> list[str]:
    """Versions the provider does not define; a library without version definitions is accepted by the loader."""
    if provider is None or not provider.defines:
        return []
    return sorted(set(versions) - set(provider.defines))


def _finding(
    env: Environment, item: SharedObject, provider: str, *, how: str, lacking: list[Import], undefined: list[str]
) -> Finding:
    parts = []
    if lacking:
        parts.append(f"{len(lacking)} symbol{'s' if len(lacking) > 1 else ''}")
    if undefined:
        parts.append(f"{len(undefined)} version{'s' if len(undefined) > 1 else ''}")
    evidence = {"library": env.in_site(provider), "found by": how}
    if lacking:
        evidence["symbols"] = ", ".join(f"{symbol.name}@{symbol.version}" for symbol in lacking[:SHOWN])
    if undefined:
        evidence["versions"] = ", ".join(undefined[:SHOWN])
    owner = env.owners.get(provider, "the distribution of that library")
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=env.in_site(item.path),
        message=f"needs {' and '.join(parts)} that {provider.rpartition('/')[2]} does not have: loading it fails",
        evidence=evidence,
        fix=f"lock a release of {owner} that has them (override-dependencies in pyproject.toml)",
    )


def _above_base(
    env: Environment, policy: Policy, item: SharedObject, soname: str, versions: list[str]
) -> Iterator[Finding]:
    library = policy.system.find(soname)
    assert library is not None
    for version in versions:
        prefix, _, number = version.rpartition("_")
        highest = library.versions.get(prefix)
        if highest is not None and _number(number) > _number(highest):
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=env.in_site(item.path),
                message=f"needs {version} of {soname}, the base image has up to {prefix}_{highest}: loading it fails",
                evidence={"package": library.package},
                fix="use a wheel built for an older system, or a newer base image",
            )


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())
