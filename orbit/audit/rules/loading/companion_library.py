"""companion-library: libraries that are opened by name at run time can be found.

Nothing in the caller's ELF file says that it will open them, so the loader does not miss them at ``import``: the first
convolution, the first run-time compilation, the first job on two nodes does. Which library opens what is data
(``kernels/expectations/libraries.toml``); what environment variables name is looked for as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from orbit.audit.facts import Environment, SharedObject
from orbit.audit.files.objects import names_of
from orbit.audit.installed.tree import resolve
from orbit.audit.known.knowledge import Companion, Plugin, libraries, matcher
from orbit.audit.known.policy import Policy
from orbit.audit.models import ld_conf
from orbit.audit.models.loader import Loader, loader_of
from orbit.core.findings import Finding, Severity

ID = "companion-library"
TITLE = "libraries that are opened by name at run time can be found"
SHOWN = 5


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per library that would not find what it opens, and per variable that names nothing."""
    loader = loader_of(env, policy)
    if env.kind != "wheels":
        for item in env.objects:
            if item.dynamic is not None and item.machine == loader.machine and "/stubs/" not in f"/{item.path}":
                for companion in libraries().companions:
                    if any(fnmatchcase(name, companion.user) for name in names_of(item)):
                        yield from _missing(env, loader, item, companion)
    if env.kind == "image":
        for plugin in libraries().plugins:
            yield from _plugin(env, loader, plugin)
        yield from _preload(env, loader)


def _missing(env: Environment, loader: Loader, item: SharedObject, companion: Companion) -> Iterator[Finding]:
    wanted = [name for text in companion.wants if (name := _spelled(text, item))]
    absent = [name for name in wanted if not _opens(env, loader, item, name)]
    if absent:
        yield Finding(
            rule=ID,
            severity=companion.severity,
            subject=env.in_site(item.path),
            message=f"opens {', '.join(absent[:SHOWN])} by name, which the loader does not find: {companion.effect}",
            evidence={"release": item.release} if item.release else {},
            fix="install the whole distribution that brings it, of the same release, into the same folder",
        )


def _opens(env: Environment, loader: Loader, item: SharedObject, wanted: str) -> bool:
    """Whether the loader finds a wanted name; of a pattern (``nvshmem_transport_ibrc.so.*``) any name is enough."""
    names = [wanted]
    if "*" in wanted:
        names = sorted({name for other in env.objects for name in names_of(other) if fnmatchcase(name, wanted)})
    return any(loader.resolve(item, name).how != "missing" for name in names)


def _spelled(text: str, item: SharedObject) -> str:
    """A wanted name for this user; empty when it depends on a release that is not known."""
    if "{release2}" not in text:
        return text
    numbers = re.match(r"\d+\.\d+", item.release)
    return text.replace("{release2}", numbers[0]) if numbers else ""


def _plugin(env: Environment, loader: Loader, plugin: Plugin) -> Iterator[Finding]:
    value = env.variables.get(plugin.variable, "").strip()
    names = re.split(r"[\s:]+", value) if plugin.split else [value]
    for name in names:
        if not name or name in plugin.exempt:
            continue
        tried = [name, *(text.replace("{value}", name) for text in plugin.wants)]
        if not any(_is_there(env, loader, text) for text in tried):
            yield Finding(
                rule=ID,
                severity=Severity.WARNING,
                subject=f"{plugin.variable}={name}",
                message=f"names a library that is not in the image: {plugin.effect}",
                evidence={"looked for": ", ".join(tried)},
                fix="put the library where the loader looks, or take the variable out",
            )


def _preload(env: Environment, loader: Loader) -> Iterator[Finding]:
    for name in ld_conf.preloaded(env.texts):
        if not _is_there(env, loader, name):
            yield Finding(
                rule=ID,
                severity=Severity.WARNING,
                subject=f"{ld_conf.PRELOAD}: {name}",
                message="names a library that is not in the image: every program complains and goes on without it",
                fix="put the library there, or take the line out",
            )


def _is_there(env: Environment, loader: Loader, name: str) -> bool:
    """Whether the loader finds a library that a variable names: a path, or a name to be searched for."""
    if "$" in name:
        return True  # $LIB and $PLATFORM in LD_PRELOAD: as the loader sees fit
    if "/" in name:
        inside = loader.inside(name)
        return inside is not None and resolve(env.tree, inside) is not None
    if matcher(libraries().driver.files)(name):
        return True
    return loader.finds(name) or bool(loader.providers(name))
