"""requirement: what every distribution requires is there, in a version that it accepts.

Evaluated for the target's interpreter and machine, with the extras that are really asked for. A version that an
override of the lock forces, with its reason in the lock policy, is a note; the rest breaks sooner or later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from orbit.audit.facts import Environment
from orbit.audit.known.policy import Policy
from orbit.audit.models.claim import claim_of, lock_of, lock_policy
from orbit.audit.models.requirements import (
    DISTRO_SITE,
    EGG_INFO,
    Group,
    Unmet,
    Unreadable,
    groups,
    marker_environment,
    unmet,
    versions_of,
)
from orbit.core.findings import Finding, Severity

ID = "requirement"
TITLE = "every distribution finds the distributions that it requires"
SHOWN = 6


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per distribution that is missing or of another version, naming everybody who wants it."""
    for group in groups(env):
        if group.site == DISTRO_SITE:
            continue
        wants: dict[tuple[str, tuple[str, ...]], list[Unmet]] = defaultdict(list)
        unreadable: list[Unreadable] = []
        for item in unmet(group.dists, marker_environment(env, group), present=present_in(env, group)):
            if isinstance(item, Unreadable):
                unreadable.append(item)
            else:
                wants[item.wanted, item.found].append(item)
        for (wanted, found), items in sorted(wants.items()):
            if not found and env.kind == "wheels":
                continue  # wheels are not all that will be installed
            yield _judge(env, policy, wanted, found, items)
        if unreadable:
            yield _note_unreadable(unreadable)


def present_in(env: Environment, group: Group) -> dict[str, tuple[str, ...]]:
    """Versions by name of all that an interpreter finds with ``group``: dist-info, and the older egg-info."""
    found = versions_of((*group.dists, *group.beside))
    sites = {group.site, *(dist.site for dist in group.beside)}
    sites |= {site for site in env.layout.sites if site == DISTRO_SITE and group.beside}
    for path in env.tree.entries:
        if path.endswith(".egg-info"):
            folder, _, name = path.rpartition("/")
            if folder in sites and (match := EGG_INFO.match(name)):
                found.setdefault(canonicalize_name(match["name"]), (match["version"],))
    return found


def _judge(env: Environment, policy: Policy, wanted: str, found: tuple[str, ...], items: list[Unmet]) -> Finding:
    count = len({item.by for item in items})
    people = "1 distribution requires" if count == 1 else f"{count} distributions require"
    evidence = {"wanted by": _some(_who(item) for item in items)}
    if found:
        version = ", ".join(found)
        if reason := declared(env, policy, wanted, found):
            return Finding(
                rule=ID,
                severity=Severity.NOTE,
                subject=wanted,
                message=f"{version} is installed on purpose; {people} another version ({reason})",
                evidence=evidence,
            )
        return Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=wanted,
            message=f"{version} is installed; {people} another version",
            evidence=evidence,
            fix=f"install a version of {wanted} that all of them accept, or move those that do not",
        )
    if reason := left_out(env, wanted):
        return Finding(
            rule=ID,
            severity=Severity.WARNING,
            subject=wanted,
            message=f"left out when the environment was made ({reason}); {people} it",
            evidence=evidence,
            fix=f"make the environment with {wanted}",
        )
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=wanted,
        message=f"not installed; {people} it",
        evidence=evidence,
        fix=f"install {wanted}",
    )


def declared(env: Environment, policy: Policy, name: str, found: tuple[str, ...]) -> str:
    """The reason why this very version is held against what others require; empty when nobody gave one.

    A pin alone is not enough: the version must be the one that the lock's override or the policy's CUDA release names.
    """
    rules = lock_policy(policy)
    pin = rules.pin(name) if rules else None
    if rules is None or pin is None:
        return ""
    lock = lock_of(env, policy)
    held = lock.overrides.get(name, "") if lock else ""
    release = rules.release(policy.profile.cuda)
    component = release.component(name) if release else None
    bounds = [bound for bound in (held, component.version if component else "") if bound]
    return pin.reason if any(all(_contains(bound, version) for version in found) for bound in bounds) else ""


def left_out(env: Environment, name: str) -> str:
    """Why the environment's own record says that ``name`` is not in it."""
    claim = claim_of(env)
    skip = claim.skip_of(name) if claim else None
    return skip.reason if skip else ""


def _contains(specifier: str, version: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except ValueError:  # neither, or a number of thousands of digits
        return False


def _note_unreadable(items: list[Unreadable]) -> Finding:
    return Finding(
        rule=ID,
        severity=Severity.NOTE,
        subject="Requires-Dist",
        message=f"{len(items)} lines are no requirements (PEP 508) and were not judged",
        evidence={"lines": _some(f"{item.by}: {item.line}" for item in items)},
    )


def _who(item: Unmet) -> str:
    extra = f"[{item.extra}]" if item.extra else ""
    wants = f" wants {item.specifier}" if item.specifier else ""
    return f"{item.by}{extra} {item.version}{wants}"


def _some(texts: Iterable[str]) -> str:
    every = sorted(set(texts))
    rest = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + rest
