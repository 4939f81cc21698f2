"""family: distributions that work only together are all there and of one release, and rivals are not side by side.

The knowledge is data: kernels/expectations/distributions.toml for every target, the lock policy (its families) for
environments of the profile's own lock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from packaging.version import Version

from orbit.audit.facts import Distribution, Environment
from orbit.audit.known.known_dists import Compiled, KnownDists, known_dists
from orbit.audit.known.policy import Policy
from orbit.audit.models.claim import claim_of, is_of_profile, lock_policy
from orbit.audit.models.requirements import groups
from orbit.core.findings import Finding, Severity
from orbit.profile.rules import family_problem

ID = "family"
TITLE = "distributions that belong together are complete and of one release, and rivals are not side by side"


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per broken family and site-packages folder."""
    known = known_dists()
    for group in groups(env):
        present = {dist.name: dist for dist in (*group.beside, *group.dists)}
        yield from _exclusive(known, present)
        yield from _cuda_majors(known, present)
        yield from _equal(known, present)
        if env.kind != "wheels":  # a folder of wheels is not asked to be complete
            yield from _together(env, known, present)
    if is_of_profile(env, policy):
        yield from _profile_families(env, policy)


def _exclusive(known: KnownDists, present: dict[str, Distribution]) -> Iterator[Finding]:
    for entry in known.exclusive:
        rivals = [present[name] for name in entry.names if name in present]
        if len(rivals) > 1:
            yield _finding(
                " + ".join(dist.name for dist in rivals),
                f"these exclude each other: {entry.reason}",
                rivals,
                fix="keep one of them: uninstall all of them, then install the one that is wanted",
            )


def _cuda_majors(known: KnownDists, present: dict[str, Distribution]) -> Iterator[Finding]:
    by_major: dict[str, list[Distribution]] = defaultdict(list)
    for dist in present.values():
        if major := known.cuda.major(dist.name, dist.version):
            by_major[major].append(dist)
    if len(by_major) > 1:
        majors = sorted(by_major)
        yield Finding(
            rule=ID,
            severity=Severity.WARNING,
            subject="CUDA " + " + ".join(majors),
            message=f"libraries of {len(majors)} CUDA majors are installed: {known.cuda.reason}",
            evidence={f"CUDA {major}": _versions(by_major[major]) for major in majors},
            fix="find what requires the other major and take its build for the one that torch has",
        )


def _equal(known: KnownDists, present: dict[str, Distribution]) -> Iterator[Finding]:
    for entry in known.equal:
        members = [d for d in present.values() if any(fnmatchcase(d.name, pattern) for pattern in entry.names)]
        if len({_public(dist.version) for dist in members}) > 1:
            yield _finding(
                " + ".join(sorted(dist.name for dist in members)),
                f"of different releases: {entry.reason}",
                members,
                fix="install one release of all of them",
            )
    for compiled in known.compiled:
        yield from _compiled(compiled, present)


def _compiled(entry: Compiled, present: dict[str, Distribution]) -> Iterator[Finding]:
    base = present.get(entry.against)
    row = next((row for row in entry.releases if base and row[entry.against] == _minor(base.version)), None)
    if base is None or row is None:
        return
    for name in entry.names:
        dist = present.get(name)
        if dist is not None and name in row and _minor(dist.version) != row[name]:
            yield _finding(
                f"{base.name} + {name}",
                f"{name} {dist.version} is not for {base.name} {base.version}, {row[name]} is: {entry.reason}",
                [base, dist],
                fix=f"install {name} {row[name]}",
            )


def _together(env: Environment, known: KnownDists, present: dict[str, Distribution]) -> Iterator[Finding]:
    claim = claim_of(env)
    for entry in known.together:
        for dist in [present[name] for name in sorted(present) if fnmatchcase(name, entry.when)]:
            lacking = [names for names in entry.needs if not any(name in present for name in names)]
            if lacking:
                absent = ", ".join(" or ".join(names) for names in lacking)
                skips = [claim.skip_of(name) for names in lacking for name in names] if claim else []
                said = "; ".join(f"{skip.what} was left out: {skip.reason}" for skip in skips if skip)
                yield Finding(
                    rule=ID,
                    severity=Severity.ERROR,
                    subject=dist.name,
                    message=f"there without {absent}: {entry.reason}",
                    evidence={"version": dist.version} | ({"record": said} if said else {}),
                    fix=f"install {absent}, or remove {dist.name}",
                )


def _profile_families(env: Environment, policy: Policy) -> Iterator[Finding]:
    """The families of the lock's policy, for what is installed; those that the general data covers are not repeated."""
    rules = lock_policy(policy)
    installed = {dist.name: dist for dist in env.dists if dist.site == env.layout.site}
    known = known_dists()
    for family in rules.families if rules else ():
        members = {name: dist.version for name, dist in installed.items() if family.matches(name)}
        equal = any(set(members) <= _matching(entry.names, members) for entry in known.equal)
        alone = any(_matching((entry.when,), members) for entry in known.together)
        if equal and (alone or not family.complete):
            continue
        if problem := family_problem(family, members):
            yield _finding(
                family.name,
                f"{problem} ({family.reason})",
                [installed[name] for name in sorted(members)],
                fix="make the environment from the lock (orbit env create)",
            )


def _matching(patterns: Iterable[str], names: Iterable[str]) -> set[str]:
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}


def _finding(subject: str, message: str, dists: Iterable[Distribution], *, fix: str) -> Finding:
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=subject,
        message=message,
        evidence={"versions": _versions(dists)},
        fix=fix,
    )


def _versions(dists: Iterable[Distribution]) -> str:
    return ", ".join(f"{dist.name} {dist.version}" for dist in sorted(dists, key=lambda dist: dist.name))


def _public(version: str) -> str:
    try:
        return Version(version).public
    except ValueError:  # no version, or a number of thousands of digits
        return version


def _minor(version: str) -> str:
    try:
        release = (*Version(version).release, 0)[:2]
    except ValueError:  # no version, or a number of thousands of digits
        return version
    return ".".join(str(part) for part in release)
