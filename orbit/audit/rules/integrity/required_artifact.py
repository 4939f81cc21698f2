"""required-artifact: distributions contain the parts that they are worth little without.

Builds skip an extension without a word (no compiler, no submodule, no NVSHMEM), pack what is left as a wheel, and the
job finds out hours later. What must be there is data: ``kernels/expectations/artifacts.toml``.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from orbit.audit.facts import Distribution, Environment, join
from orbit.audit.installed.import_path import editable_root, places, within
from orbit.audit.installed.tree import resolve
from orbit.audit.known.policy import Policy
from orbit.audit.rules.integrity.data import Artifact, artifacts
from orbit.core.findings import Finding, Severity

ID = "required-artifact"
TITLE = "every distribution contains the parts it is worth little without"


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per distribution and part that is missing, too few or too small."""
    names = {canonicalize_name(dist.name) for dist in env.dists} | {""}
    wanted = [
        (dist, artifact)
        for dist in env.dists
        for artifact in artifacts().artifacts
        if canonicalize_name(dist.name) in artifact.dist.split() and artifact.only_with in names
    ]
    if not wanted:
        return
    roots = {dist.folder: _roots(env, dist) for dist, _artifact in wanted}
    known = candidates(
        env,
        {root for found in roots.values() for root in found},
        {pattern for _dist, artifact in wanted for pattern in (*artifact.files, *artifact.when)},
    )
    for dist, artifact in wanted:
        if not roots[dist.folder]:
            yield _unknown(dist, artifact)
            continue
        if artifact.when and not _find(env, known, roots[dist.folder], artifact.when):
            continue
        found = _find(env, known, roots[dist.folder], artifact.files)
        if problem := _problem(env, artifact, found):
            yield _finding(env, dist, artifact, problem, found)


def candidates(env: Environment, roots: set[str], patterns: set[str]) -> list[str]:
    """Entries that begin like one of the patterns does before its first ``*``, below one of the roots: one pass."""
    starts = tuple({join(root, pattern.partition("*")[0]) for root in roots for pattern in patterns})
    return [path for path in env.tree.entries if path.startswith(starts)]


def _find(env: Environment, known: list[str], roots: list[str], patterns: tuple[str, ...]) -> list[str]:
    """Files below ``roots`` that match one of the patterns."""
    tests = [glob(join(root, pattern)) for root in roots for pattern in patterns]
    found = []
    for path in known:
        if any(test.match(path) for test in tests):
            target = resolve(env.tree, path)
            if target is not None and env.tree.entries[target].is_file:
                found.append(path)
    return found


@functools.cache
def glob(pattern: str) -> re.Pattern[str]:
    """A shell pattern in which ``*`` does not cross ``/``."""
    return re.compile("[^/]*".join(re.escape(part) for part in pattern.split("*")) + r"\Z")


def _roots(env: Environment, dist: Distribution) -> list[str]:
    """Where a distribution's files lie: its site-packages, or the source folders of an editable one in the target."""
    if editable_root(dist) is None:
        return [dist.site]
    found = []
    for place in places(env, dist):
        # a finder names packages, everything else the folder they lie in
        inside = within(env, posixpath.dirname(place.path) if place.via.endswith(".py") else place.path)
        if inside is not None and (inside == "" or resolve(env.tree, inside) is not None):
            found += [inside, join(inside, "src")]
    return found


def _problem(env: Environment, artifact: Artifact, found: list[str]) -> str:
    if not found:
        return "is not there"
    if len(found) < artifact.count:
        return f"is there {len(found)} times, {artifact.count} are needed"
    largest = max(env.tree.entries[resolve(env.tree, path) or path].size for path in found)
    if largest < artifact.min_bytes:
        return f"has {largest:,} bytes, at least {artifact.min_bytes:,} are expected: built without its main part"
    return ""


def _finding(env: Environment, dist: Distribution, artifact: Artifact, problem: str, found: list[str]) -> Finding:
    evidence = {"distribution": f"{dist.name} {dist.version}", "what people see": artifact.symptom}
    if found:
        evidence["found"] = ", ".join(env.in_site(path) for path in sorted(found)[:5])
    if artifact.platform and dist.pure:
        evidence["wheel"] = f"tagged as pure Python ({' '.join(dist.tags) or 'no tag'}): the extension was not built"
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=f"{dist.name}: {artifact.files[0]}",
        message=problem,
        evidence=evidence,
        fix=f"build {dist.name} anew and look for what its build skipped (compiler, CUDA_HOME, submodules)",
    )


def _unknown(dist: Distribution, artifact: Artifact) -> Finding:
    return Finding(
        rule=ID,
        severity=Severity.NOTE,
        subject=f"{dist.name}: {artifact.files[0]}",
        message="an editable installation whose sources lie outside: whether it is there was not judged",
        fix="install it for real (without -e) before shipping",
    )
