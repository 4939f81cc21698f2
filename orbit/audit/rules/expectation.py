"""expectation: every declared exception still matches something.

An exception that outlived its reason would hide the next defect of the same shape, so it has to go.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from orbit.audit.facts import Environment, SharedObject, join
from orbit.audit.policy import Gap, Policy, matches
from orbit.audit.rules.coverage import arch_coverage
from orbit.audit.rules.loading import needs_library
from orbit.core.findings import Finding, Severity

ID = "expectation"
TITLE = "every declared exception is still true"
FIX = "correct or remove the entry in kernels/expectations/"


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per stale [[dispatching]] pattern, [[gaps]] or [[absent]] entry (waivers: :func:`check_waivers`)."""
    device = {env.in_site(item.path): item for item in env.objects if item.containers}
    for entry in policy.expectations.dispatching:
        for pattern in entry.files:
            if not any(matches(name, (pattern,)) for name in device):
                yield _stale(pattern, "declared as dispatching, but no file with device code has this name")
    for gap in policy.expectations.gaps:
        if problem := gap_problem(env, policy, gap, device.get(gap.file)):
            yield _stale(f"{gap.file} ({gap.target})", problem)
    lacking = needs_library.missing(env, policy)
    for absent in policy.expectations.absent:
        if not any(
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
    if gap.served_by and not any(_present(env, pattern) for pattern in gap.served_by):
        return f"its work on {gap.target} is declared to be done by {' or '.join(gap.served_by)}, which is not there"
    return ""


def _present(env: Environment, pattern: str) -> bool:
    """Whether some path matches a pattern relative to site-packages."""
    whole = join(env.layout.site, pattern)
    return whole in env.tree.entries or any(fnmatchcase(path, whole) for path in env.tree.entries)


def check_waivers(policy: Policy, used: frozenset[int], judged: frozenset[str]) -> Iterator[Finding]:
    """One finding per waiver of the rules ``judged`` that has expired or matched no finding.

    ``used`` holds the positions of those that did.
    """
    for position, waiver in enumerate(policy.expectations.waivers):
        if waiver.rule not in judged:
            continue
        name = f"waiver {waiver.rule} {waiver.subject}"
        if waiver.expires < policy.today:
            yield _stale(name, f"expired on {waiver.expires}: decide anew whether this is acceptable")
        elif position not in used:
            yield _stale(name, "matches no finding any more")


def _stale(subject: str, message: str) -> Finding:
    return Finding(rule=ID, severity=Severity.ERROR, subject=subject, message=message, fix=FIX)
