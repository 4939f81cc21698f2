"""record-hash: the files on disk are the files the wheel brought, byte for byte.

RECORD lists every installed file with its size and hash. A file that is missing, shorter, longer or different was
deleted, truncated, overwritten by another distribution, or edited by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from orbit.audit.facts import Distribution, Environment, RecordRow
from orbit.audit.policy import Policy
from orbit.audit.rules.integrity.file_conflict import contested_paths
from orbit.audit.rules.integrity.hollow_package import is_gone
from orbit.audit.tree import resolve
from orbit.core.findings import Finding, Severity

ID = "record-hash"
TITLE = "every installed file is what its wheel brought"
FIX = "install the distribution again (orbit env create makes a fresh environment)"
SHOWN = 5
DIFFERENCES = {
    "missing": "listed in RECORD but not on disk",
    "kind": "listed in RECORD but not a regular file",
    "size": "of another size than RECORD says",
    "hash": "of other content than RECORD says",
    "unread": "not readable by the user who ran the audit",
}


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per distribution and kind of difference."""
    contested = frozenset(path for path, _digests in contested_paths(env))
    for dist in env.dists:
        if dist.problem:
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=dist.name,
                message=f"no usable metadata: {dist.problem}",
                evidence={"folder": dist.folder},
                fix=FIX,
            )
        if dist.outside:
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=dist.name,
                message=f"RECORD lists {len(dist.outside)} paths outside the environment",
                evidence={"paths": _some(list(dist.outside))},
                fix=FIX,
            )
        if not is_gone(env, dist):
            yield from _differences(env, dist, contested)


def _differences(env: Environment, dist: Distribution, contested: frozenset[str]) -> Iterator[Finding]:
    found: dict[str, list[str]] = defaultdict(list)
    for row in dist.rows:
        kind = _compare(env, row)
        # a path with two owners is file-conflict's matter
        if kind and not (kind in ("size", "hash") and row.path in contested):
            found[kind].append(row.path)
    for kind, paths in found.items():
        evidence = {"paths": _some([env.in_site(path) for path in paths])}
        if kind == "hash":
            row = next(row for row in dist.rows if row.path == paths[0])
            evidence |= {
                "recorded": f"{row.algorithm}={row.digest}",
                "found": f"{row.algorithm}={env.digests[row.path]}",
            }
        files = "1 file is" if len(paths) == 1 else f"{len(paths)} files are"
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=dist.name,
            message=f"{files} {DIFFERENCES[kind]}",
            evidence=evidence,
            fix=FIX,
        )


def _compare(env: Environment, row: RecordRow) -> str:
    """Which of DIFFERENCES is true of a row; empty when the file is as recorded."""
    digest = env.digests.get(row.path)
    if digest is not None and digest == row.digest:
        return ""
    target = resolve(env.tree, row.path)
    if target is None:
        return "" if row.path in env.tree.links else "missing"  # a link that leads nowhere: dangling-link's matter
    fact = env.tree.entries[target]
    if not fact.is_file:
        return "kind"
    if row.size not in (-1, fact.size):
        return "size"
    if digest is None:
        return ""
    return "unread" if digest.startswith("!") else "hash"


def _some(paths: list[str]) -> str:
    rest = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(sorted(paths)[:SHOWN]) + rest
