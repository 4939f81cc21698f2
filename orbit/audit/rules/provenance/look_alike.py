"""look-alike: a distribution is the project that its name makes people think of.

Names that are free on an index are taken by others: placeholders, old projects, stubs with a version that every
resolver prefers. What is known by name is data; two signs are general: nothing in it, and a version such as 999.9.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from packaging.version import Version

from orbit.audit.facts import Distribution, Environment
from orbit.audit.known.known_dists import LookAlike, known_dists
from orbit.audit.known.policy import Policy
from orbit.audit.models.claim import is_of_profile, lock_policy
from orbit.core.findings import Finding, Severity

ID = "look-alike"
TITLE = "every distribution is the project that its name stands for"
NINES = re.compile(r"^9{2,}$")
PLACEHOLDERS = re.compile(r"^(0(\.0)*(\.0*1)?|1\.0(\.0)?)([.-]?(a|b|rc|dev|post)\d*)?$")


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per distribution that is not what its name says."""
    known = {entry.name: entry for entry in known_dists().look_alikes}
    for dist in env.dists:
        entry = known.get(dist.name)
        if entry is not None and is_stranger(env, dist, entry):
            yield _finding(
                dist, Severity.ERROR, f"not {entry.meant}: {entry.reason}", fix=f"remove it and take {entry.meant}"
            )
        elif problem := _forbidden(env, policy, dist):
            yield _finding(dist, Severity.ERROR, problem, fix="remove it and whatever requires it")
        elif is_nines(dist.version) and not dist.direct_url:
            yield _finding(
                dist,
                Severity.WARNING,
                "a version that is there to win every resolution: often a stub that guards a name",
                fix="bound the version in what requires it, and look at what it contains",
            )
        elif is_placeholder(dist):
            yield _finding(
                dist,
                Severity.WARNING,
                "a placeholder: no file but its own metadata, no summary or a first version, no requirement",
                fix="find out where the project is really published",
            )


def is_stranger(env: Environment, dist: Distribution, entry: LookAlike) -> bool:
    """Whether ``dist`` is the other project of that name."""
    if dist.direct_url or not entry.covers(dist.version):
        return False
    names = [env.in_site(row.path) for row in dist.rows]
    return not any(fnmatchcase(name, pattern) for name in names for pattern in entry.lacks)


def is_nines(version: str) -> bool:
    """Whether a version consists of nines from 99 on."""
    try:
        release = Version(version).release
    except ValueError:  # no version, or a number of thousands of digits
        return False
    return bool(NINES.match(str(release[0]))) and all(set(str(part)) <= {"9", "0"} for part in release)


def is_placeholder(dist: Distribution) -> bool:
    """Whether nothing is in a distribution that stands for nothing else either."""
    if not dist.rows or dist.requires or dist.direct_url or any(not _is_metadata(dist, row.path) for row in dist.rows):
        return False
    return not dist.summary or PLACEHOLDERS.match(dist.version) is not None


def _is_metadata(dist: Distribution, path: str) -> bool:
    return path.startswith(f"{dist.folder}/")


def _forbidden(env: Environment, policy: Policy, dist: Distribution) -> str:
    """What the profile's own policy says against a distribution of an environment that is made from its lock."""
    rules = lock_policy(policy)
    rule = rules.source(dist.name) if rules else None
    kernels = (*policy.profile.kernels.core, *policy.profile.kernels.extended)
    if rule is None or rule.source != "forbidden" or dist.name in kernels or not is_of_profile(env, policy):
        return ""
    return f"must not be in an environment of this profile: {rule.reason}"


def _finding(dist: Distribution, severity: Severity, message: str, *, fix: str) -> Finding:
    return Finding(
        rule=ID,
        severity=severity,
        subject=dist.name,
        message=message,
        evidence={"version": dist.version, "summary": dist.summary or "none", "files": str(len(dist.rows))},
        fix=fix,
    )
