"""dangling-link: every symbolic link leads to something inside the environment.

A link to a cache or to the build machine works until the cache is cleaned or the environment is copied into an image.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from orbit.audit.facts import Environment
from orbit.audit.policy import Policy
from orbit.audit.tree import normalise, resolve
from orbit.core.findings import Finding, Severity

ID = "dangling-link"
TITLE = "every link leads to something inside the target"


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per link whose target is missing, outside the prefix or in a circle."""
    for path, target in sorted(env.tree.links.items()):
        if resolve(env.tree, path) is not None:
            continue
        leaves = target.startswith("/") or normalise(path.rpartition("/")[0], target) is None
        borrowed = _is_interpreter(env, path, target)
        yield Finding(
            rule=ID,
            severity=Severity.WARNING if borrowed else Severity.ERROR,
            subject=env.in_site(path),
            message=(
                "the interpreter is borrowed from outside the environment"
                if borrowed
                else "a link that leaves the environment"
                if leaves
                else "a link that leads nowhere"
            ),
            evidence={"target": target},
            fix=(
                "orbit env create puts the interpreter inside"
                if borrowed
                else "replace the link by the file itself (uv: --link-mode=copy)"
            ),
        )


def _is_interpreter(env: Environment, path: str, target: str) -> bool:
    if not env.layout.base_interpreter:
        return False
    folder, _, name = path.rpartition("/")
    return (
        folder == "bin" and name.startswith("python") and os.path.dirname(target) in ("", env.layout.base_interpreter)
    )
