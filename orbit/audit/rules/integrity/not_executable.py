"""not-executable: programs and scripts can be executed by the user, not only read.

A compiler whose execute bit was lost on the way (a copy through an archive without modes, a wheel whose zip has none)
fails at the first kernel that is compiled at run time, with ``Permission denied``, minutes into a job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from orbit.audit.facts import Environment, join
from orbit.audit.known.policy import Policy, matches
from orbit.audit.rules.integrity.access import EXECUTE, Access, counted, some
from orbit.audit.rules.integrity.data import artifacts
from orbit.core.findings import Finding, Severity

ID = "not-executable"
TITLE = "the user can execute every program"


def programs(env: Environment) -> Iterator[str]:
    """Regular files that are there to be executed: scripts of distributions, known tools, ELF programs somebody may
    execute."""
    lead = join(env.layout.home, "bin") + "/"
    known = artifacts().programs
    listed = {row.path for dist in env.dists for row in dist.rows if row.path.startswith(lead)}
    shells = {
        path
        for path, head in env.texts.items()
        if path.startswith(lead) and "/" not in path[len(lead) :] and head.startswith((b"#!", b"\x7fELF"))
    }
    objects = {
        item.path
        for item in env.objects
        if ".so" not in item.path.rpartition("/")[2] and (not env.tree.rooted or item.path in env.owners)
    }
    tails = tuple(pattern.rpartition("/")[2] for pattern in known)
    named = {
        path
        for path, fact in env.tree.entries.items()
        if path.endswith(tails) and fact.is_file and matches(f"/{path}", known)
    }
    # of a wheel that is not installed, scripts get their bits from the installer; everything else keeps the archive's
    scripts = set() if env.kind == "wheels" else listed | shells
    for path in sorted(scripts | objects | named):
        fact = env.tree.entries.get(path)
        if fact is not None and fact.is_file:
            yield path


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per mode and owner of programs that the user cannot execute."""
    access = Access(env, policy)
    groups: dict[str, list[str]] = defaultdict(list)
    for path in programs(env):
        fact = env.tree.entries[path]
        if not access.allows(fact, EXECUTE):
            groups[f"{fact.mode & 0o7777:04o} {fact.uid}:{fact.gid}"].append(path)
    for mode, paths in sorted(groups.items()):
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=env.in_site(paths[0]) if len(paths) == 1 else f"programs of mode {mode}",
            message=f"{counted(len(paths), 'program')} cannot be executed by uid {access.uid}: Permission denied",
            evidence={
                "programs": some(env, paths),
                "mode": mode,
                "of": ", ".join(sorted({env.owners.get(path, "nobody") for path in paths})),
            },
            fix="set the execute bits (chmod a+x), and copy environments with their modes (tar -p, cp -a, rsync -p)",
        )
