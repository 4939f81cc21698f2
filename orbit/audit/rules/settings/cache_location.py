"""cache-location: what is compiled at run time is kept on a disk of the node, where the user may write, for one stack.

The default of most caches is the home folder: shared by all nodes over the network, read-only or absent in a container,
and the same for every image. Where a cache goes is said by variables, of the image or of the activation contract; what
the entry point's script sets counts as set.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from orbit.audit.facts import Environment, Kind
from orbit.audit.known.jit import Cache, installed, load_jit
from orbit.audit.known.policy import Policy
from orbit.audit.models.settings import (
    WRITE,
    Setting,
    entry_is_unread,
    home_folder,
    home_prefix,
    load_settings,
    locate,
    may,
    settings_of,
)
from orbit.core.findings import Finding, Severity
from orbit.env.activate import SOCKETS_BYTES

ID = "cache-location"
TITLE = "caches of compiled code are local to the node, writable, and of one stack"
KINDS: frozenset[Kind] = frozenset(("environment", "image"))
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - names to look for
USER_PART = re.compile(r"\$\{?(USER|UID|LOGNAME)\b|<uid>|\$\(id ")
IDENTITY_PART = re.compile(r"<identity>|[0-9a-f]{10,}|(^|[^0-9])\d+\.\d+|cu\d{2,3}|sm_?\d{2,3}|py3\d+")
SOCKET_FOLDERS = ("TMPDIR", "RAY_TMPDIR")


@dataclass(frozen=True, slots=True)
class Location:
    """Where one cache goes."""

    cache: Cache
    variable: str
    """What places it; for one that is not set the variable that would."""
    path: str
    """As configured, with what the package appends; its default when nothing is set."""
    setting: Setting | None
    """None when no variable is set."""


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per cause, with every cache that has it."""
    settings = settings_of(env)
    groups: dict[str, list[Location]] = defaultdict(list)
    for location in locations(env, settings):
        if cause := _cause(env, policy, location):
            groups[cause].append(location)
    unread = entry_is_unread(env)
    for cause, found in groups.items():
        finding = _finding(cause, found, policy)
        if cause == "home by default" and unread:
            message = f"{finding.message}; unless the entry point sets them, which was not read"
            finding = msgspec.structs.replace(finding, severity=Severity.NOTE, message=message)
        yield finding
    for name in SOCKET_FOLDERS:
        setting = settings.get(name)
        size = len(os.fsencode(setting.value)) if setting is not None else 0
        if setting is not None and setting.is_known and size > SOCKETS_BYTES:
            yield Finding(
                rule=ID,
                severity=Severity.WARNING,
                subject=name,
                message=f"has {size} bytes: the paths of sockets below it get longer than the 107 allowed",
                evidence={"value": setting.value},
                fix=f"use a folder of at most {SOCKETS_BYTES} bytes",
            )


def locations(env: Environment, settings: dict[str, Setting]) -> Iterator[Location]:
    """Where the caches of the installed packages go; the driver's too, when anything holds device code."""
    on_gpu = any(item.containers for item in env.objects)
    for cache in load_jit().caches:
        if not (installed(env, cache.dists) if cache.dists else on_gpu):
            continue
        name = next((name for name in cache.variables if name in settings and settings[name].value), "")
        if name:
            below = f"/{cache.below}" if cache.below else ""
            yield Location(cache, name, settings[name].value.rstrip("/") + below, settings[name])
            continue
        parent = next((name for name in cache.parent if name in settings and settings[name].value), "")
        if parent:
            path = f"{settings[parent].value.rstrip('/')}/{cache.parent[parent]}"
            yield Location(cache, parent, path, settings[parent])
        else:
            yield _default(cache, settings)


def _default(cache: Cache, settings: dict[str, Setting]) -> Location:
    """A default below TMPDIR follows that variable."""
    temporary = settings.get("TMPDIR")
    if cache.default.startswith("$TMPDIR/") and temporary is not None:
        return Location(cache, "TMPDIR", cache.default.replace("$TMPDIR", temporary.value, 1), temporary)
    return Location(cache, cache.variables[0], cache.default.replace("$TMPDIR", TEMPORARY[0], 1), None)


def _cause(env: Environment, policy: Policy, location: Location) -> str:
    """Why a location is wrong: a key of :data:`CAUSES`; empty when it is right."""
    path, setting = location.path, location.setting
    if setting is None:
        return "home by default" if path.startswith("~") else ""
    if not setting.is_known:
        return ""
    if setting.origin != "entry point" and (path.startswith("~") or "$" in setting.value):
        return "not expanded"
    if not path.startswith(("/", "~")):
        return "relative"
    causes = {
        "home": path.startswith("~") or _is_below(path, _homes(env)),
        "network": _is_below(path, load_settings().network),
        "read-only": _is_below(path, home_prefix(env, policy)) and not _writable(env, policy, path),
        "shared by users": env.kind == "image" and _is_below(path, TEMPORARY) and not USER_PART.search(path),
        "no identity": not location.cache.keyed and not IDENTITY_PART.search(path),
    }
    return next((cause for cause, holds in causes.items() if holds), "")


def _homes(env: Environment) -> tuple[str, ...]:
    """Home folders. One in a temporary folder (``HOME=/tmp``, as images without a user have it) is on the node."""
    own = home_folder(env)
    return ("/root", "/home") if _is_below(own, TEMPORARY) else (own, "/root", "/home")


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    bare = (folder.rstrip("/") for folder in folders)
    return any(path == folder or path.startswith(f"{folder}/") for folder in bare if folder)


def _writable(env: Environment, policy: Policy, path: str) -> bool:
    """Whether the user may make the folder: the nearest one above it that exists is writable."""
    while path not in ("", "/"):
        place = locate(env, policy, path)
        if place.how == "here":
            return may(env.tree.entries[place.path], policy.uid, WRITE)
        path = path.rpartition("/")[0]
    return False


CAUSES: dict[str, tuple[Severity, str, str]] = {
    "home by default": (
        Severity.WARNING,
        "not set: these caches go to the home folder, shared by all nodes or not writable in a container",
        "set {names} to a folder on a disk of the node",
    ),
    "home": (
        Severity.WARNING,
        "point{s} into a home folder: shared by all nodes, or not writable by another user",
        "point {names} to a folder on a disk of the node",
    ),
    "network": (
        Severity.WARNING,
        "point{s} to what looks like a network file system: locks fail, many ranks end in stale file handles",
        "point {names} to a disk of the node",
    ),
    "read-only": (
        Severity.ERROR,
        "point{s} into the installed environment, where uid {uid} may not write: the first compilation fails",
        "point {names} to a writable folder outside it",
    ),
    "shared by users": (
        Severity.WARNING,
        "point{s} to one fixed temporary folder: where the host's is mounted, the second user cannot write it",
        "let the entry point set {names}, with the user's number in the path",
    ),
    "no identity": (
        Severity.WARNING,
        "point{s} to a folder without version or architecture: what another image left there is loaded",
        "put the environment's identity or its version, and the GPU, into the path",
    ),
    "not expanded": (
        Severity.ERROR,
        "hold{s} ~ or $, which nobody expands: a folder of that very name is made in the current folder",
        "write an absolute path, or set it in the entry point",
    ),
    "relative": (
        Severity.WARNING,
        "{are} relative: the cache is wherever the program was started",
        "write an absolute path",
    ),
}
"""Severity, message and fix by cause."""


def _finding(cause: str, found: list[Location], policy: Policy) -> Finding:
    severity, message, fix = CAUSES[cause]
    variables = list(dict.fromkeys(location.variable for location in found))
    names = ", ".join(variables)
    single = len(variables) == 1
    words = {"names": names, "are": "is" if single else "are", "s": "s" if single else "", "uid": policy.uid}
    return Finding(
        rule=ID,
        severity=severity,
        subject=names,
        message=message.format(**words),
        evidence={location.cache.name: location.path for location in found},
        fix=fix.format(**words),
    )
