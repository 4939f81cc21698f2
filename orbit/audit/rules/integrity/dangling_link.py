"""dangling-link: every symbolic link leads to something inside the target, and still does when the target is moved.

A link to a cache or to the build machine works until the cache is cleaned or the environment is copied into an image.
The links of the interpreter are interpreter-link's matter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Literal, NamedTuple

from orbit.audit.facts import Environment, join
from orbit.audit.installed.tree import End, follow
from orbit.audit.known.policy import Policy
from orbit.audit.rules.integrity.access import counted, needed_links, some
from orbit.audit.rules.integrity.data import artifacts
from orbit.core.findings import Finding, Severity

ID = "dangling-link"
TITLE = "every link leads to something inside the target"
INTERPRETER = re.compile(r"(^|/)bin/(python|python3|python3\.\d+|pypy3?)$")
MOUNTED = ("/proc/", "/sys/", "/dev/", "/run/", "/var/run/")
"""Provided when a container runs: a link there in an image says nothing."""

type Cause = Literal["cache", "leaves", "missing", "circle", "absolute"]


class Group(NamedTuple):
    """Links that are wrong for one reason."""

    cause: Cause
    place: str
    """The cache, the place outside, what is missing, or a link of the circle."""


MESSAGES: dict[Cause, str] = {
    "cache": "into a cache of an installer, outside the target: cleaning it breaks them",
    "leaves": "out of the target",
    "missing": "to something that is not there",
    "circle": "in a circle, or over more than 40 links",
    "absolute": "to the target by absolute path: they break when it is moved",
}
FIXES: dict[Cause, str] = {
    "cache": "install as real files (uv: --link-mode=copy or UV_LINK_MODE=copy; pip copies)",
    "leaves": "replace each link by the file itself (cp -L)",
    "missing": "put back what the links lead to, or remove them",
    "circle": "remove the links and install the distribution again",
    "absolute": "make them relative (ln -sr)",
}


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per cause: a cache, a place outside, a thing that is missing, a circle."""
    groups: dict[Group, list[str]] = defaultdict(list)
    for path, target in needed_links(env):
        group = judge(env, path, target)
        if group is not None:
            groups[group].append(path)
    for (cause, place), paths in sorted(groups.items()):
        owners = sorted({env.owners[path] for path in paths if path in env.owners})
        yield Finding(
            rule=ID,
            severity=Severity.WARNING if cause == "absolute" else Severity.ERROR,
            subject=env.in_site(place) or ".",
            message=f"{counted(len(paths), 'link')} {'leads' if len(paths) == 1 else 'lead'} {MESSAGES[cause]}",
            evidence={
                "links": some(env, paths),
                "target": env.tree.links[min(paths)],
                "distributions": ", ".join(owners[:5]) + (f" and {len(owners) - 5} more" if len(owners) > 5 else ""),
            },
            fix=FIXES[cause],
        )


def judge(env: Environment, path: str, target: str) -> Group | None:
    """Why a link is wrong, or None."""
    if is_interpreter(env, path):
        return None
    end = follow(env.tree, path)
    if end.how == "here":
        return Group("absolute", _start(env, target)) if end.absolute and not env.tree.rooted else None
    where = f"/{join(end.path, end.rest)}"
    if env.tree.rooted and end.how != "circle" and where.startswith(MOUNTED):
        return None
    return cause_of(env, end)


def cause_of(env: Environment, end: End) -> Group:
    """The cause that a path which leads nowhere belongs to."""
    where = f"/{join(end.path, end.rest)}" if env.tree.rooted else end.path
    if end.how == "circle":
        return Group("circle", end.path)
    if cache := cache_of(where):
        return Group("cache", cache)
    if end.how == "missing":
        return Group("missing", end.path)
    return Group("leaves", "/".join(where.split("/")[: 4 if where.startswith("/") else 3]))


def cache_of(path: str) -> str:
    """The installer's cache that an absolute path lies in; empty when in none."""
    for part in artifacts().caches:
        at = path.find(part)
        if at >= 0 and path.startswith("/"):
            return path[: at + len(part) - 1]
    return ""


def is_interpreter(env: Environment, path: str) -> bool:
    """Whether a link is ``bin/python`` or one of its other names, of the environment itself."""
    home = env.layout.home
    return INTERPRETER.search(path) is not None and path.rpartition("/")[0] == (f"{home}/bin" if home else "bin")


def _start(env: Environment, target: str) -> str:
    return next((root for root in env.tree.roots if target == root or target.startswith(f"{root}/")), target)
