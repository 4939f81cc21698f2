"""file-conflict: no two distributions own one path with different content.

The installer that comes last wins; which one that is differs from run to run and from machine to machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from orbit.audit.facts import Environment
from orbit.audit.policy import Policy
from orbit.core.findings import Finding, Severity

ID = "file-conflict"
TITLE = "no path is owned by two distributions with different content"
SHOWN = 5


def contested_paths(env: Environment) -> Iterator[tuple[str, dict[str, str]]]:
    """Paths that several distributions record with different digests: (path, digest by distribution)."""
    seen: dict[str, str] = {}
    shared: set[str] = set()
    for dist in env.dists:
        for row in dist.rows:
            if row.digest and seen.setdefault(row.path, row.digest) != row.digest:
                shared.add(row.path)
    digests: dict[str, dict[str, str]] = {path: {} for path in sorted(shared)}
    if digests:
        for dist in env.dists:
            for row in dist.rows:
                if row.path in digests and row.digest:
                    digests[row.path][dist.name] = row.digest
    yield from digests.items()


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per pair (or larger group) of distributions, with the number of paths and who won."""
    owners = dict(contested_paths(env))
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path, digests in owners.items():
        groups[tuple(sorted(digests))].append(path)
    for names, paths in sorted(groups.items()):
        won = {name: sum(owners[path][name] == env.digests.get(path) for path in paths) for name in names}
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=" + ".join(names),
            message=f"{len(paths)} paths are owned by each of them with different content",
            evidence={
                "paths": ", ".join(env.in_site(path) for path in sorted(paths)[:SHOWN]),
                "on disk": ", ".join(f"{count} from {name}" for name, count in won.items()),
            },
            fix="keep one of these distributions (exclude the other in pyproject.toml)",
        )
