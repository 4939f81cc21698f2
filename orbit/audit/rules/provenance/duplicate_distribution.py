"""duplicate-distribution: one site-packages folder describes a project once.

Two metadata folders of one project mean that an installation was laid over another without removing it: which version
``importlib.metadata`` answers depends on the order of the directory, files of both may lie there, and an installer
removes one of them at best. Folders that begin with ``~`` are what pip leaves of a removal that was interrupted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from orbit.audit.facts import Distribution, Environment
from orbit.audit.known.policy import Policy
from orbit.audit.models.requirements import EGG_INFO
from orbit.core.findings import Finding, Severity

ID = "duplicate-distribution"
TITLE = "no project is described twice in one site-packages folder"
KINDS = frozenset(("environment", "image"))
LEFTOVER = re.compile(r"^~[^/]+$")
BARE_EGG = re.compile(r"^(?P<name>[^-]+)\.(egg-info|egg-link)$")


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per project that is described twice, and one for all leftovers of pip."""
    dists = {dist.folder: dist for dist in env.dists}
    described: dict[tuple[str, str], list[str]] = defaultdict(list)
    for dist in env.dists:
        described[dist.site, dist.name].append(dist.folder)
    leftovers: list[str] = []
    sites = set(env.layout.sites)
    for path in env.tree.entries:
        folder, _, name = path.rpartition("/")
        if folder not in sites:
            continue
        if name.endswith((".egg-info", ".egg-link")) and (match := EGG_INFO.match(name) or BARE_EGG.match(name)):
            described[folder, canonicalize_name(match["name"])].append(path)
        elif name.startswith("~") and LEFTOVER.match(name):
            leftovers.append(path)
    for (_site, name), paths in sorted(described.items()):
        if len(paths) > 1:
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=name,
                message=f"described {len(paths)} times in one folder: an older installation was not removed",
                evidence={env.in_site(path): _what(env, dists.get(path)) for path in sorted(paths)},
                fix=f"uninstall {name} until it is gone, then install it once",
            )
    if leftovers:
        yield Finding(
            rule=ID,
            severity=Severity.WARNING,
            subject="~*",
            message=f"{len(leftovers)} entries are left of an uninstallation that was interrupted",
            evidence={"entries": ", ".join(sorted(env.in_site(path) for path in leftovers)[:5])},
            fix="delete them",
        )


def _what(env: Environment, dist: Distribution | None) -> str:
    """How much of a description is on disk."""
    if dist is None:
        return "egg metadata"
    present = sum(row.path in env.tree.entries for row in dist.rows)
    return f"{dist.version}: {present} of {len(dist.rows)} recorded files are there"
