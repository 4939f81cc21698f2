"""record-hash: the files on disk are the files the wheel brought, byte for byte.

RECORD lists every installed file with its size and hash. A file that is missing, shorter, longer or different was
deleted, truncated, overwritten by another distribution, or edited by hand.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from orbit.audit.facts import Distribution, Environment, RecordRow
from orbit.audit.installed.tree import follow
from orbit.audit.known.policy import Policy
from orbit.audit.rules.integrity.access import counted, is_system_site
from orbit.audit.rules.integrity.file_conflict import contested_paths
from orbit.audit.rules.integrity.hollow_package import is_gone
from orbit.core.digests import record_digest
from orbit.core.findings import Finding, Severity

ID = "record-hash"
TITLE = "every installed file is what its wheel brought"
FIX = "install the distribution again (orbit env create makes a fresh environment)"
SHOWN = 5
HEX = frozenset({64, 96, 128})
"""Lengths of SHA-2 digests in hexadecimal."""
STRONG = frozenset({"sha256", "sha384", "sha512"})
SYSTEM_INSTALLERS = frozenset({"debian", "rpm"})
"""What packages of Linux distributions write into INSTALLER. Their package manager has its own list of files."""
BESIDE_SITE = re.compile(r"^(\.\./){1,3}[^./][^/]*/(?!.*\.\./)")
"""Scripts and data of a site-packages folder that is audited alone lie beside it."""
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
        if dist.installer in SYSTEM_INSTALLERS or is_system_site(env, dist.site):
            continue
        if dist.problem:
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=dist.name,
                message=f"no usable metadata: {dist.problem}",
                evidence={"folder": dist.folder},
                fix=FIX,
            )
        outside = [path for path in dist.outside if not (env.layout.site == "" and BESIDE_SITE.match(path))]
        if outside:
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=dist.name,
                message=f"RECORD lists {counted(len(outside), 'path')} outside the environment",
                evidence={"paths": _some(outside)},
                fix="do not use this wheel: no honest build writes such paths",
            )
        if not is_gone(env, dist):
            yield from _differences(env, dist, contested)
    yield from _weak(env)


def _weak(env: Environment) -> Iterator[Finding]:
    """Files that RECORD ties to their content with an algorithm that does not bind, or that is not known."""
    rows: dict[str, list[str]] = defaultdict(list)
    dists: dict[str, set[str]] = defaultdict(set)
    for dist in env.dists:
        for row in dist.rows:
            if row.algorithm and row.algorithm not in STRONG:
                rows[row.algorithm].append(row.path)
                dists[row.algorithm].add(dist.name)
    for algorithm, paths in sorted(rows.items()):
        yield Finding(
            rule=ID,
            severity=Severity.NOTE,
            subject=algorithm,
            message=f"{counted(len(paths), 'file')} recorded with {algorithm}: their content was not compared",
            evidence={"distributions": _some(sorted(dists[algorithm])), "paths": _some(paths)},
            fix="build the wheel with a tool that records sha256",
        )


def _differences(env: Environment, dist: Distribution, contested: frozenset[str]) -> Iterator[Finding]:
    found: dict[str, list[str]] = defaultdict(list)
    digests = env.digests
    for row in dist.rows:
        if row.digest and digests.get(row.path) == row.digest:
            continue
        kind = _compare(env, row)
        # a path with two owners is file-conflict's matter
        if kind and not (kind in ("size", "hash", "unread") and row.path in contested):
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
    if digest is not None and len(row.digest) in HEX and digest == from_hex(row.digest):
        return ""
    fact = env.tree.entries.get(row.path)
    if fact is None or fact.is_link:
        end = follow(env.tree, row.path)
        if end.how != "here":
            # through a link that leads nowhere: dangling-link's matter; compiled files may go
            is_missing = end.how == "missing" and f"{row.path}/".startswith(f"{end.path}/")
            return "missing" if is_missing and not (row.path.endswith(".pyc") and not row.digest) else ""
        fact = env.tree.entries[end.path]
    if not fact.is_file:
        return "kind"
    if row.size not in (-1, fact.size):
        return "size"
    if digest is None:
        return ""
    return "unread" if digest.startswith("!") else "hash"


def from_hex(text: str) -> str:
    """A digest that a build tool wrote in hexadecimal, in RECORD's spelling; empty when it is not one."""
    try:
        return record_digest(bytes.fromhex(text))
    except ValueError:
        return ""


def _some(paths: list[str]) -> str:
    rest = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(sorted(paths)[:SHOWN]) + rest
