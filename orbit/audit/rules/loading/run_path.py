"""run-path: run paths lead to folders of the target and nowhere else.

A run path is looked through for every library that the file needs and has not got by then. A folder of the machine
that built the file is not there on others, and whoever can make it there chooses what is loaded; an empty or relative
element means the working directory of the process. What it weighs depends on how much is looked for there: a folder
behind the one that holds everything costs a few failed calls, one in front of it decides.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from orbit.audit.facts import Environment, SharedObject
from orbit.audit.known.policy import Policy
from orbit.audit.models import ld_conf
from orbit.audit.models.loader import Loader, loader_of
from orbit.core.findings import Finding, Severity

ID = "run-path"
TITLE = "run paths lead to folders of the target and nowhere else"
SHOWN = 4
WORLD_WRITABLE = re.compile(r"^/(?:tmp|var/tmp|dev/shm)(?:/|$)")
"""Folders in which any user can make what the path names."""
SYSTEM = re.compile(r"^/(?:usr/)?lib(?:64|32)?(?:/|$)|^/usr/local/lib(?:64)?/?$")
"""Folders of any system: redundant in a run path, and harmless."""
WRITABLE = "a folder that every user can write to"
HOST_CUDA = re.compile(r"^/usr/local/(?:cuda|nvidia)(?:[/-]|$)|^/opt/nvidia(?:/|$)")
"""Where a machine may have a CUDA of its own."""


class Element(NamedTuple):
    """One run path element that leads out of the target, of one file."""

    item: SharedObject
    tag: str
    """``RPATH`` or ``RUNPATH``."""
    text: str
    kind: str
    """What is wrong with it, as a phrase."""
    severity: Severity


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per distribution, element and weight; and for the loader's own configuration."""
    loader = loader_of(env, policy)
    groups: dict[tuple[str, str, str, Severity], list[Element]] = defaultdict(list)
    for item in env.objects:
        if item.machine == loader.machine and item.dynamic is not None:
            for element in elements(env, loader, item):
                owner = env.owners.get(item.path, "") or item.path.rpartition("/")[0]
                groups[owner, element.text, element.kind, element.severity].append(element)
    for (owner, text, kind, severity), found in sorted(groups.items()):
        yield _finding(env, owner=owner, text=text, kind=kind, severity=severity, found=found)
    yield from _library_path(loader)
    yield from _cache(env, loader)


def elements(env: Environment, loader: Loader, item: SharedObject) -> Iterator[Element]:
    """Run path elements of ``item`` that lead out of the target."""
    assert item.dynamic is not None
    tag, texts = ("RUNPATH", item.dynamic.runpath) if item.dynamic.runpath else ("RPATH", item.dynamic.rpath)
    for position, text in enumerate(texts):
        kind = _kind(env, loader, item, text)
        if kind:
            yield Element(item, tag, text, kind, _severity(loader, item, texts[:position], kind))


def _kind(env: Environment, loader: Loader, item: SharedObject, text: str) -> str:
    """What is wrong with one element; empty when it is sound."""
    folder = item.path.rpartition("/")[0]
    expanded = loader.expand(folder, text)
    if not expanded.startswith("/"):
        return "the working directory" if expanded in ("", ".") else "a folder relative to the working directory"
    if expanded.startswith("//"):
        above = env.kind == "environment" and _leaves(expanded[2:])
        return "a folder above the environment" if above else ""
    if WORLD_WRITABLE.match(expanded) and (env.tree.rooted or loader.inside(expanded) is None):
        return WRITABLE
    if SYSTEM.match(expanded):
        return ""
    if loader.inside(expanded) is not None:
        absent = env.tree.rooted and loader.folder_of(folder, text) is None
        return "a folder that the image does not have" if absent else ""
    return "the CUDA of the host" if HOST_CUDA.match(expanded) else "a folder of the machine that built it"


def _leaves(path: str) -> bool:
    depth = 0
    for part in path.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return True
    return False


def _severity(loader: Loader, item: SharedObject, before: tuple[str, ...], kind: str) -> Severity:
    """By what the loader looks for there: nothing that matters is a note."""
    if not _looked_for(loader, item, before):
        return Severity.NOTE
    return Severity.ERROR if kind == WRITABLE else Severity.WARNING


def _looked_for(loader: Loader, item: SharedObject, before: tuple[str, ...]) -> list[str]:
    """Needed sonames that no earlier element has; the C library, which every process has loaded, left out."""
    assert item.dynamic is not None
    folder = item.path.rpartition("/")[0]
    return [
        soname
        for soname in item.dynamic.needed
        if "/" not in soname
        and soname not in ALWAYS_LOADED
        and not any(loader.has(folder, earlier, soname) for earlier in before)
    ]


ALWAYS_LOADED = frozenset(
    ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "ld-linux-x86-64.so.2")
)
"""Parts of glibc: a Python process has them before anything is imported, and a loaded soname is not looked for."""


def _finding(
    env: Environment, *, owner: str, text: str, kind: str, severity: Severity, found: list[Element]
) -> Finding:
    files = sorted({env.in_site(element.item.path) for element in found})
    tags = "/".join(sorted({element.tag for element in found}))
    weight = {
        Severity.ERROR: "and is looked through first: whoever makes that folder chooses what is loaded",
        Severity.WARNING: "and is looked through before what is needed is found",
        Severity.NOTE: "but everything needed is found before it",
    }[severity]
    return Finding(
        rule=ID,
        severity=severity,
        subject=f"{owner}: {text or '(empty)'}",
        message=f"{tags} of {len(files)} file{'s' if len(files) > 1 else ''} names {kind}, {weight}",
        evidence={"files": ", ".join(files[:SHOWN])},
        fix="build without it, or patchelf --set-rpath '$ORIGIN/...' before the wheel is made",
    )


def _library_path(loader: Loader) -> Iterator[Finding]:
    """Empty and relative elements of LD_LIBRARY_PATH, and those that every user can write to."""
    for text in dict.fromkeys(loader.library_path):
        if not text.startswith("/"):
            problem, severity = "the working directory of the process", Severity.WARNING
        elif WORLD_WRITABLE.match(text):
            problem, severity = WRITABLE, Severity.ERROR
        else:
            continue
        yield Finding(
            rule=ID,
            severity=severity,
            subject=f"LD_LIBRARY_PATH: {text or '(empty)'}",
            message=f"names {problem}: whoever can write there chooses what every program loads",
            evidence={"LD_LIBRARY_PATH": ":".join(loader.library_path)},
            fix="leave the element out; a colon at either end, or two together, is an empty element",
        )


def _stale(env: Environment, loader: Loader, cached: set[str]) -> Iterator[Finding]:
    """Libraries that are needed, lie in a folder of ld.so.conf, and are not in the cache: it is older than they are."""
    folders = {loader.folder_of("", item.folder) for item in ld_conf.configured_folders(env.texts)}
    forgotten: dict[str, str] = {}
    for item in env.objects:
        if item.machine == loader.machine:
            for soname, resolution in loader.needed(item):
                if resolution.how in ("preloaded", "ambiguous") and soname not in cached:
                    forgotten |= {path: soname for path in resolution.paths if path.rpartition("/")[0] in folders}
    if forgotten:
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=ld_conf.CACHE,
            message=f"lacks {len(forgotten)} needed librar{'ies' if len(forgotten) > 1 else 'y'} of the folders that "
            "ld.so.conf names: the loader reads the cache, not the folders",
            evidence={"libraries": ", ".join(sorted(forgotten)[:SHOWN])},
            fix="run ldconfig after the last library and configuration file has been added",
        )


def _cache(env: Environment, loader: Loader) -> Iterator[Finding]:
    """A loader cache that the loader cannot read."""
    data = env.texts.get(ld_conf.CACHE) if env.tree.rooted else None
    if data is None:
        return
    try:
        known = {entry.soname for entry in ld_conf.read_cache(data, loader.machine)}
        yield from _stale(env, loader, known)
    except ld_conf.MalformedCache as error:
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=ld_conf.CACHE,
            message=f"cannot be read, so only the default folders are searched: {error.what.partition(': ')[2]}",
            fix="run ldconfig when the image is built",
        )
