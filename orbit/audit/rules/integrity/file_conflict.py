"""file-conflict: no two distributions own one path with different content.

The installer that comes last wins; which one that is differs from run to run and from machine to machine. Installers
that work in parallel also mix: some files of one package from the first, some from the second ("wheel mix").
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from orbit.audit.facts import Distribution, Environment
from orbit.audit.known.policy import Policy
from orbit.audit.rules.integrity.access import counted, some
from orbit.core.findings import Finding, Severity

ID = "file-conflict"
TITLE = "no path is owned by two distributions with different content"
CODE = (".py", ".so", ".pyi", ".pth", ".cuh", ".h", ".hpp", ".cu")
NEITHER = "nobody's"


def contested_paths(env: Environment) -> Iterator[tuple[str, dict[str, str]]]:
    """Paths that several distributions record with different digests: (path, digest by name, with version when two
    versions of one project are installed over each other)."""
    twice = projects_installed_twice(env)
    digests: dict[str, dict[str, str]] = {path: {} for path in sorted(shared_paths(env))}
    if digests:
        for dist in env.dists:
            for row in dist.rows:
                if row.path in digests and row.digest:
                    digests[row.path][_label(dist, twice)] = row.digest
    yield from ((path, found) for path, found in digests.items() if len(set(found.values())) > 1)


def shared_paths(env: Environment) -> frozenset[str]:
    """Paths that several distributions list, or two versions of one."""
    found = env.derived.get("shared_paths")
    if not isinstance(found, frozenset):
        owners = env.owners
        twice = projects_installed_twice(env)
        found = frozenset(
            row.path
            for dist in env.dists
            for row in dist.rows
            if owners.get(row.path) != dist.name or (twice and dist.name in twice)
        )
        env.derived["shared_paths"] = found
    return found


def projects_installed_twice(env: Environment) -> set[str]:
    """Names with more than one metadata folder."""
    return {name for name, count in Counter(dist.name for dist in env.dists).items() if count > 1}


def _label(dist: Distribution, twice: set[str]) -> str:
    return f"{dist.name} {dist.version}" if dist.name in twice else dist.name


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per group of distributions, with the number of paths, who won, and which packages are mixed; a note
    for names that differ in case only."""
    digests = dict(contested_paths(env))
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path, owners in digests.items():
        groups[tuple(sorted(owners))].append(path)
    for names, paths in sorted(groups.items()):
        yield _finding(env, names, {path: digests[path] for path in paths})
    yield from _case(env)


def _finding(env: Environment, names: tuple[str, ...], paths: dict[str, dict[str, str]]) -> Finding:
    installed = env.kind != "wheels"
    won: Counter[str] = Counter()
    by_package: dict[str, Counter[str]] = defaultdict(Counter)
    for path, owners in paths.items():
        winner = next((name for name in names if owners[name] == env.digests.get(path)), NEITHER)
        won[winner] += 1
        by_package[env.in_site(path).partition("/")[0]][winner] += 1
    mixed = {
        package: counts for package, counts in by_package.items() if installed and len(counts.keys() - {NEITHER}) > 1
    }
    projects = {name.partition(" ")[0] for name in names}
    code = any(path.endswith(CODE) for path in paths)
    verb = "is" if len(paths) == 1 else "are"
    message = f"{counted(len(paths), 'path')} {verb} owned by each of them with different content"
    if mixed:
        message += f"; wheel mix: {', '.join(sorted(mixed)[:3])} {'has' if len(mixed) == 1 else 'have'} files of both"
    evidence = {"paths": some(env, list(paths))}
    if installed:
        evidence["on disk"] = ", ".join(f"{won[name]} from {name}" for name in (*names, NEITHER) if name in won)
    for package, counts in sorted(mixed.items())[:5]:
        evidence[f"mix in {package}"] = ", ".join(f"{count} from {name}" for name, count in sorted(counts.items()))
    return Finding(
        rule=ID,
        severity=Severity.ERROR if code else Severity.WARNING,
        subject=" + ".join(names),
        message=message,
        evidence=evidence,
        fix=(
            "remove both and install one version (make the environment anew)"
            if len(projects) == 1
            else "keep one of these distributions (exclude the other in pyproject.toml)"
        ),
    )


def _case(env: Environment) -> Iterator[Finding]:
    """Paths of distributions that a file system which ignores case would take for one."""
    if len({path.lower() for path in env.owners}) == len(env.owners):
        return
    folded: dict[str, str] = {}
    clashes: dict[str, set[str]] = defaultdict(set)
    for path in env.owners:
        other = folded.setdefault(path.lower(), path)
        if other != path:
            clashes[path.lower()] |= {other, path}
    groups: dict[str, list[str]] = defaultdict(list)
    for clash in clashes.values():
        groups[env.in_site(min(clash)).partition("/")[0]].extend(clash)
    for top, paths in sorted(groups.items()):
        owners = sorted({env.owners[path] for path in paths if path in env.owners})
        yield Finding(
            rule=ID,
            severity=Severity.WARNING if len(owners) > 1 else Severity.NOTE,
            subject=top,
            message=f"{len(paths)} paths differ only in upper and lower case: one file where case is ignored",
            evidence={"paths": some(env, paths), "distributions": ", ".join(owners)},
            fix="keep the environment on a file system that tells case apart (not a macOS or Windows share)",
        )
