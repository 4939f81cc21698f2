"""expectation: every declared exception still matches something.

An exception that outlived its reason would hide the next defect of the same shape, so it has to go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

import msgspec

from orbit.audit.facts import Environment, SharedObject, join
from orbit.audit.known.policy import Gap, Policy, matches
from orbit.audit.rules.coverage import arch_coverage
from orbit.audit.rules.loading import needs_library
from orbit.core.findings import Finding, Severity

ID = "expectation"
TITLE = "every declared exception is still true"
FIX = "correct or remove the entry in kernels/expectations/"


class Notes(msgspec.Struct):
    """What matters of the environment's own record."""

    profile: str = ""


def is_own(env: Environment, policy: Policy) -> bool:
    """Whether the target is the environment that the profile's expectations were written for: it says so itself."""
    text = env.texts.get(join(env.layout.home, "share/orbit/environment.json"), b"")
    try:
        return msgspec.json.decode(text, type=Notes).profile == policy.profile.name
    except (msgspec.DecodeError, RecursionError):
        return False


def is_judged(env: Environment, policy: Policy, pattern: str) -> bool:
    """Whether an entry about ``pattern`` says something about this target.

    About the profile's own environment every entry does. Of any other target only what is about a package in it: the
    files match, or their top folder is there and belongs to one distribution, so that they should be there as well. One
    wheel has a part of a package often enough: there only what matches counts.
    """
    if is_own(env, policy) or _present(env, pattern):
        return True
    if env.kind == "wheels":
        return False
    top = pattern.partition("/")[0]
    lead = f"{join(env.layout.site, top)}/"
    owners = {owner for path, owner in env.owners.items() if path.startswith(lead)} if "*" not in top else set()
    return len(owners) == 1


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per stale entry of [[dispatching]], [[gaps]], [[features]], [[absent]] (waivers: see below)."""
    device = {env.in_site(item.path): item for item in env.objects if item.containers}
    declared = [("as dispatching", pattern) for entry in policy.expectations.dispatching for pattern in entry.files]
    declared += [("to need a feature", pattern) for entry in policy.expectations.features for pattern in entry.files]
    for what, pattern in dict.fromkeys(declared):
        if not any(matches(name, (pattern,)) for name in device) and is_judged(env, policy, pattern):
            yield _stale(pattern, f"declared {what}, but no file with device code has this name")
    for gap in policy.expectations.gaps:
        if (problem := gap_problem(env, policy, gap, device.get(gap.file))) and is_judged(env, policy, gap.file):
            yield _stale(f"{gap.file} ({gap.target})", problem)
    lacking = needs_library.missing(env, policy)
    for absent in policy.expectations.absent_in(env.kind):
        if any(is_judged(env, policy, pattern) for pattern in absent.files) and not any(
            matches(soname, absent.sonames) and any(matches(name, absent.files) for name in files)
            for soname, files in lacking.items()
        ):
            yield _stale(
                " ".join(absent.files), f"declared to miss {' '.join(absent.sonames)}, but misses none of them"
            )


def gap_problem(env: Environment, policy: Policy, gap: Gap, item: SharedObject | None) -> str:
    """Why a declared gap is not true any more; empty when it is (a differing count is arch-coverage's finding)."""
    if item is None:
        return "declared with a coverage gap, but there is no such file with device code"
    target = next(target for target in policy.profile.targets if target.name == gap.target)
    found = arch_coverage.gaps_of(item, target, dispatching=arch_coverage.is_dispatching(policy, gap.file))
    if gap.result not in found:
        return f"declared with a coverage gap ({gap.result}) for {gap.target}, but it has none"
    lost = bool(gap.served_by) and not any(_present(env, pattern) for pattern in gap.served_by)
    if lost and (env.kind != "wheels" or any(_has_package(env, pattern) for pattern in gap.served_by)):
        return f"its work on {gap.target} is declared to be done by {' or '.join(gap.served_by)}, which is not there"
    return ""


def _has_package(env: Environment, pattern: str) -> bool:
    """Whether the package that a pattern is about is there: a few wheels are not the whole stack."""
    lead = f"{join(env.layout.site, pattern.partition('/')[0])}/"
    return any(path.startswith(lead) for path in env.owners)


def _present(env: Environment, pattern: str) -> bool:
    """Whether some path matches a pattern relative to site-packages."""
    whole = join(env.layout.site, pattern)
    start = re.split(r"[*?\[]", whole, maxsplit=1)[0]
    entries = env.tree.entries
    return whole in entries or (
        start != whole and any(path.startswith(start) and fnmatchcase(path, whole) for path in entries)
    )


def check_waivers(env: Environment, policy: Policy, used: frozenset[int], judged: frozenset[str]) -> Iterator[Finding]:
    """One finding per waiver of the rules ``judged`` that has expired or matched no finding.

    ``used`` holds the positions of those that did. Of a target that is not the profile's own environment only waivers
    about files that are in it are judged.
    """
    for position, waiver in enumerate(policy.expectations.waivers):
        if waiver.rule not in judged or not waiver.concerns(env.kind):
            continue
        if not (position in used or is_judged(env, policy, waiver.subject)):
            continue
        name = f"waiver {waiver.rule} {waiver.subject}"
        if waiver.expires < policy.today:
            yield _stale(name, f"expired on {waiver.expires}: decide anew whether this is acceptable")
        elif position not in used:
            yield _stale(name, "matches no finding any more")


def _stale(subject: str, message: str) -> Finding:
    return Finding(rule=ID, severity=Severity.ERROR, subject=subject, message=message, fix=FIX)
