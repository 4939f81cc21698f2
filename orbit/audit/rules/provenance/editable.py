"""editable: what is imported is in the target, and is the checkout that was meant.

An editable install keeps a path in the place of files. The path may lead out of what is shipped, to nothing, or to
another checkout than the one that was installed; and a copy of the package in site-packages comes first on the path.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from orbit.audit.facts import Distribution, Environment, join
from orbit.audit.installed.import_path import Place, editable_root, egg_links, modules_of, places, state, within
from orbit.audit.known.policy import Policy
from orbit.core.findings import Finding, Severity

ID = "editable"
TITLE = "no distribution is imported from a checkout"
KINDS = frozenset(("environment", "image"))
FIX = "install it as a wheel (without --editable), built from the commit that is meant"


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per editable install and problem."""
    for dist in env.dists:
        if editable_root(dist) is not None or any(_is_editable_file(dist, row.path) for row in dist.rows):
            yield from _judge(env, dist.name, list(places(env, dist)))
            yield from _shadowed(env, dist)
    for name, place in egg_links(env):
        yield from _judge(env, name, [place])


def _is_editable_file(dist: Distribution, path: str) -> bool:
    """Whether a recorded file is of the kind that setuptools writes for an editable install."""
    return "__editable__" in path and path.startswith(
        (join(dist.site, "__editable__."), join(dist.site, "__editable___"))
    )


def _judge(env: Environment, name: str, found: list[Place]) -> Iterator[Finding]:
    by_state: dict[str, list[Place]] = {}
    for place in found:
        by_state.setdefault(state(env, place.path), []).append(place)
    if gone := by_state.get("gone"):
        yield _finding(
            env,
            name,
            Severity.ERROR,
            "imported from a folder that is not there: the import fails, or finds another copy",
            gone,
        )
    elif outside := by_state.get("outside"):
        yield _finding(
            env, name, Severity.WARNING, "imported from a folder outside of the target: it changes without it", outside
        )
    elif inside := by_state.get("inside"):
        yield _finding(
            env, name, Severity.WARNING, "imported from a checkout: no RECORD says what its files should be", inside
        )
    roots = [place for place in found if place.via == "direct_url.json"]
    others = [place for place in found if place.via != "direct_url.json"]
    strays = [place for place in others if roots and not _is_below(place.path, roots[0].path)]
    if strays:
        yield _finding(
            env,
            name,
            Severity.ERROR,
            f"installed from {roots[0].path}, but imported from another checkout",
            strays,
        )


def _is_below(path: str, root: str) -> bool:
    return posixpath.commonpath((path, root)) == root


def _shadowed(env: Environment, dist: Distribution) -> Iterator[Finding]:
    """Modules of an editable install that also lie in site-packages, which comes first on the import path."""
    own = {row.path for row in dist.rows}
    targets = {within(env, place.path) for place in places(env, dist)}
    copies = [
        path
        for module in sorted(modules_of(env, dist))
        for path in (join(dist.site, module, "__init__.py"), join(dist.site, f"{module}.py"))
        if path in env.tree.entries and path not in own and path.rpartition("/")[0] not in targets
    ]
    if copies:
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=dist.name,
            message="installed from a checkout, but a copy in site-packages is imported instead",
            evidence={
                "copies": ", ".join(env.in_site(path) for path in copies),
                "owners": ", ".join(sorted({env.owners.get(path, "nobody") for path in copies})),
            },
            fix=f"uninstall {dist.name} until it is gone, then install the one that is meant",
        )


def _finding(env: Environment, name: str, severity: Severity, message: str, found: list[Place]) -> Finding:
    return Finding(
        rule=ID,
        severity=severity,
        subject=name,
        message=message,
        evidence={env.in_site(place.via): place.path for place in found[:5]},
        fix=FIX,
    )
