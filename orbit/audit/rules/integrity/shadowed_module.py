"""shadowed-module: every import name has one provider.

Two distributions of one import name (``opencv-python`` and ``opencv-python-headless``) overwrite each other, and
removing one removes files of the other. A module that has a standard-library name is never imported, or replaces the
standard library for everybody when site-packages is on ``PYTHONPATH``.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from orbit.audit.facts import Environment
from orbit.audit.known.policy import Policy
from orbit.audit.rules.integrity.access import counted, some
from orbit.audit.rules.integrity.data import artifacts
from orbit.audit.rules.integrity.file_conflict import shared_paths
from orbit.audit.rules.integrity.forms import Forms
from orbit.core.findings import Finding, Severity

ID = "shadowed-module"
TITLE = "every import name has one provider"


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per import name with several providers, per standard-library name, and per module of two owners."""
    packages = _providers(env)
    shared = _shared(env)
    for name, owners in sorted(packages.items()):
        if len(owners) > 1:
            yield from _two(name, owners, shared)
        if name in sys.stdlib_module_names and not _is_known(name, owners):
            yield Finding(
                rule=ID,
                severity=Severity.WARNING,
                subject=name,
                message=(
                    "has the name of a standard-library module: never imported, or in its place where site-packages is "
                    "on PYTHONPATH"
                ),
                evidence={"distributions": ", ".join(sorted(owners))},
                fix="remove the distribution: the interpreter has the module",
            )
    yield from _forms(env)


def _providers(env: Environment) -> dict[str, dict[str, dict[str, str]]]:
    """Digest of the file that makes an import name, by name, distribution and form (``name/`` or ``name.py``)."""
    found: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for dist in env.dists:
        lead = f"{dist.site}/" if dist.site else ""
        start = len(lead)
        for row in dist.rows:
            path = row.path
            if path.endswith(".py") and path.count("/", start) < 2 and path.startswith(lead):
                top, slash, rest = path[start:].partition("/")
                if not slash:
                    found[top[:-3]][dist.name][top] = row.digest
                elif rest == "__init__.py":
                    found[top][dist.name][f"{top}/"] = row.digest
    return found


def _shared(env: Environment) -> Counter[tuple[str, str, str]]:
    """How many files but ``__init__.py`` two distributions both list: by import name, owner and other owner."""
    shared = shared_paths(env)
    counts: Counter[tuple[str, str, str]] = Counter()
    for dist in env.dists if shared else ():
        for row in dist.rows:
            owner = env.owners.get(row.path, dist.name)
            if row.path in shared and owner != dist.name and not row.path.endswith(("/__init__.py", ".pyc")):
                counts[env.in_site(row.path).partition("/")[0], owner, dist.name] += 1
    return counts


def _two(name: str, owners: dict[str, dict[str, str]], shared: Counter[tuple[str, str, str]]) -> Iterator[Finding]:
    """What is wrong when several distributions bring one import name: a hidden module, or one package twice.

    Only ``__init__.py`` in common is how old namespace packages are made, and differing content is file-conflict's.
    """
    if _is_known(name, owners):
        return
    digests: dict[str, set[str]] = defaultdict(set)
    for own in owners.values():
        for form, digest in own.items():
            digests[form].add(digest)
    hidden = sorted(dist for dist, own in owners.items() if f"{name}/" not in own)
    if hidden and len(digests) > 1:
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=name,
            message=f"a module of {', '.join(hidden)} and a package: Python takes the package, the module never",
            evidence={"distributions": ", ".join(sorted(owners))},
            fix="keep one of these distributions",
        )
        return
    pairs = {pair: count for pair, count in shared.items() if pair[0] in (name, f"{name}.py")}
    if pairs and all(len(values) == 1 for values in digests.values()):
        yield Finding(
            rule=ID,
            severity=Severity.WARNING,
            subject=name,
            message=f"brought by {counted(len(owners), 'distribution')}: removing or updating one breaks the other",
            evidence={
                "distributions": ", ".join(sorted(owners)),
                "files in common": ", ".join(f"{count} of {one} and {two}" for (_, one, two), count in pairs.items()),
            },
            fix="keep one of these distributions",
        )


def _is_known(name: str, owners: Mapping[str, object]) -> bool:
    return any(
        name in entry.modules and (not entry.dists or owners.keys() <= {*entry.dists}) for entry in artifacts().shadows
    )


def _forms(env: Environment) -> Iterator[Finding]:
    """Modules with several importable forms of different owners, or two extension modules of one."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for forms in Forms(env).several.values():
        owners = tuple(env.owners.get(path, "") for path in forms)
        extensions = [path for path in forms if path.endswith(".so")]
        if "" not in owners and (len(set(owners)) > 1 or len(extensions) > 1):
            groups[tuple(sorted(set(owners)))].append(forms[0])
    for names, paths in sorted(groups.items()):
        yield Finding(
            rule=ID,
            severity=Severity.ERROR if len(names) > 1 else Severity.WARNING,
            subject=" + ".join(names),
            message=f"{counted(len(paths), 'module')} with two forms: Python takes the first in order of suffix",
            evidence={"taken": some(env, paths)},
            fix="keep one form (install the distribution anew into an empty environment)",
        )
