"""hollow-package: a package that still imports but is empty inside.

When ``pkg/__init__.py`` disappears (a cleaned cache that links pointed into, a half-copied layer) while other files of
the package stay, Python makes a namespace package of what is left: the import works, every attribute is missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from orbit.audit.facts import Distribution, Environment
from orbit.audit.policy import Policy
from orbit.audit.tree import resolve
from orbit.core.findings import Finding, Severity

ID = "hollow-package"
TITLE = "no package is an empty namespace"


def is_gone(env: Environment, dist: Distribution) -> bool:
    """Whether nothing of a distribution outside its metadata folder is left, although RECORD lists something."""
    lead = f"{dist.folder}/"
    rows = [row.path for row in dist.rows if not row.path.startswith(lead)]
    return bool(rows) and not any(resolve(env.tree, path) for path in rows)


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per hollow package, and per distribution whose files are all gone."""
    for dist in env.dists:
        if is_gone(env, dist):
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=dist.name,
                message=f"all {len(dist.rows)} files are gone, only the metadata says it is installed",
                evidence={"folder": dist.folder},
                fix="install the distribution again as real files, not as links",
            )
            continue
        for row in dist.rows:
            if not row.path.endswith("/__init__.py"):
                continue
            fact = env.tree.entries.get(row.path)
            if fact is not None and fact.is_file:
                continue
            target = resolve(env.tree, row.path)
            if target is not None and env.tree.entries[target].is_file:
                continue
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=env.in_site(row.path.removesuffix("/__init__.py")),
                message=f"its __init__.py is {_state(env, row.path)}: it imports as an empty namespace package",
                evidence={"distribution": dist.name, "link": env.tree.links.get(row.path, "")},
                fix=f"install {dist.name} again as real files, not as links",
            )


def _state(env: Environment, path: str) -> str:
    fact = env.tree.entries.get(path)
    if fact is None:
        return "missing"
    return "a link that leads nowhere in the environment" if fact.is_link else "not a regular file"
