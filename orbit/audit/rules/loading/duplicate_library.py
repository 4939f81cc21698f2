"""duplicate-library: a library that a process should have once is there once, in the release its users were made for.

Two NCCLs, cuDNNs or NVSHMEMs in one environment are a coin toss: whoever is imported first decides which of them serves
everybody. Releases are read from the files themselves, because a file may be of another release than the distribution
that owns it says: two wheels that own one path, a file copied over, a library of the base image found first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from orbit.audit.facts import Distribution, Environment
from orbit.audit.files.releases import number
from orbit.audit.known.policy import Policy
from orbit.audit.models.copies import Copy, copies_of, dists_of, same_content, same_release, scopes, users_of
from orbit.audit.models.loader import loader_of
from orbit.core.findings import Finding, Severity

ID = "duplicate-library"
TITLE = "libraries that a process should have once are there once, in the release that was asked for"
SHOWN = 4
LOWER = {Severity.ERROR: Severity.WARNING, Severity.WARNING: Severity.NOTE, Severity.NOTE: Severity.NOTE}


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per library with several copies, and one per copy that is not what its distribution or users say."""
    loader = loader_of(env, policy)
    copies = copies_of(env, loader)
    users = users_of(loader, copies)
    searched = frozenset(folder for folder, _how in loader.search_folders())
    seen = set()
    for scope in scopes(env, copies):
        by_key: dict[tuple[str, str], list[Copy]] = defaultdict(list)
        for copy in scope:
            by_key[copy.family.name, copy.key].append(copy)
        for found in by_key.values():
            paths = tuple(copy.item.path for copy in found)
            if len(found) > 1 and paths not in seen:
                seen.add(paths)
                yield from _several(env, found, users, searched)
    for copy in copies:
        yield from _owners(env, copy)
        yield from _pins(env, copy, users[copy.item.path])


def _several(
    env: Environment, copies: list[Copy], users: dict[str, list[str]], searched: frozenset[str]
) -> Iterator[Finding]:
    family = copies[0].family
    mixed = not all(same_content(env, copies[0], other) for other in copies[1:])
    severity = family.mixed if mixed else family.copies
    if severity is None:
        return
    used = [copy for copy in copies if users[copy.item.path]]
    reached = [copy for copy in copies if users[copy.item.path] or copy.folder in searched]
    if len(reached) < 2:
        severity = LOWER[severity]  # nobody here gets the other one, but whoever opens it by its path may
    most = max(copies, key=lambda copy: len(users[copy.item.path]))
    shown = [f"{_named(env, copy)}: {_count(len(users[copy.item.path]))}" for copy in copies]
    first = next((env.in_site(users[copy.item.path][0]) for copy in used), "")
    yield Finding(
        rule=ID,
        severity=severity,
        subject=f"{family.name}: {copies[0].key}",
        message=f"{len(copies)} copies" + (" of different releases: " if mixed else ": ") + family.reason,
        evidence={"copies": "; ".join(shown), **({"needed by": first} if first else {})},
        fix=family.fix or f"keep {env.in_site(most.item.path)} and take the others out, or lock them to one release",
    )


def _owners(env: Environment, copy: Copy) -> Iterator[Finding]:
    """Distributions that bring this file: two of them, or one of another release than the file states."""
    path = copy.item.path
    owners = [dist for dist in dists_of(env, copy.family) if any(row.path == path for row in dist.rows)]
    names = " and ".join(f"{dist.name} {dist.version}" for dist in owners)
    if len(owners) > 1 and not all(same_release(owners[0].version, dist.version) for dist in owners):
        yield Finding(
            rule=ID,
            severity=copy.family.mixed,
            subject=env.in_site(path),
            message=f"{names} both bring this file, so the order of installing decided which one is there",
            evidence={"release of the file": copy.item.release or "not stated"},
            fix="keep the distribution of the CUDA release in use and reinstall it after removing the other",
        )
    elif len(owners) == 1 and copy.item.release and not same_release(owners[0].version, copy.item.release):
        yield Finding(
            rule=ID,
            severity=Severity.WARNING,
            subject=env.in_site(path),
            message=f"the file is {copy.family.name} {copy.item.release}, its distribution is {names}",
            evidence={"file": copy.item.release, "distribution": owners[0].version},
            fix=f"install {owners[0].name} again: something else wrote this file",
        )


def _pins(env: Environment, copy: Copy, users: list[str]) -> Iterator[Finding]:
    """Distributions that pin the library to one release and whose files get ``copy``, which is another."""
    if not copy.release or copy.by == "distribution":
        return
    owners = {env.owners.get(path, "") for path in users}
    for dist in env.dists:
        if dist.name not in owners:
            continue
        pinned = _pinned(dist, copy)
        if pinned and not same_release(pinned, copy.release):
            older = number(copy.release) < number(pinned)
            yield Finding(
                rule=ID,
                severity=copy.family.mixed if older else Severity.WARNING,
                subject=f"{dist.name}: {copy.key}",
                message=f"{dist.name} {dist.version} was made with {copy.family.name} {pinned} and gets {copy.release}"
                + (", which is older" if older else ""),
                evidence={
                    "library": env.in_site(copy.item.path),
                    "pinned": pinned,
                    "release of the file": copy.release,
                },
                fix="lock the release it asks for, or state the override with its reason where the lock is made",
            )


def _pinned(dist: Distribution, copy: Copy) -> str:
    """The exact version of the library's distribution that ``dist`` requires without an extra; empty when none."""
    for line in dist.requires:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        name = canonicalize_name(requirement.name)
        if not any(fnmatchcase(name, pattern) for pattern in copy.family.dists):
            continue
        if requirement.marker is not None and "extra" in str(requirement.marker):
            continue
        exact = [part.version.removesuffix(".*") for part in requirement.specifier if part.operator in ("==", "===")]
        if exact:
            return exact[0]
    return ""


def _named(env: Environment, copy: Copy) -> str:
    release = f" ({copy.release}{', by its distribution' if copy.by == 'distribution' else ''})" if copy.release else ""
    return f"{env.in_site(copy.item.path)}{release}"


def _count(users: int) -> str:
    return f"{users} file{'' if users == 1 else 's'} need{'s' if users == 1 else ''} it"
