"""shipped-cache: no cache of code compiled at run time lies in the target, unless its path says for what it holds.

What somebody compiled while the image was built (a warm-up, a test) fits that GPU, driver and version. A program that
finds it by name loads it on another GPU too. Wheels of code compiled ahead of time (flashinfer-jit-cache,
flashinfer-cubin) are installed files with an owner, not caches.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase

from orbit.audit.facts import Environment, Kind
from orbit.audit.known.jit import Cache, load_jit
from orbit.audit.known.policy import Policy
from orbit.audit.models.settings import locate, settings_of
from orbit.core.findings import Finding, Severity
from orbit.kernels.capabilities import table

ID = "shipped-cache"
TITLE = "no cache of run-time compilers lies inside, unless its path names architecture and version"
KINDS: frozenset[Kind] = frozenset(("environment", "image"))
SHOWN = 3
SOURCES = (".py", ".pyc", ".lock", ".tmp", ".gitignore")
"""Files that are no compiled code; a cache that holds nothing else is only a folder."""
VERSION = re.compile(r"(^|[^0-9])\d+\.\d+(\.\d+)?|py3\d+|cu\d{2,3}($|[^0-9])")
ARCH = re.compile(r"(^|[^a-z])(sm|cc|compute|arch)[_-]?\d{2,3}[af]?($|[^0-9a-z])")
FLASHINFER_ARCH = re.compile(r"^\d{2,3}[af]?(_\d{2,3}[af]?)*$")
"""flashinfer's folder of one set of architectures: ``90a``, ``90a_100a``."""
GPU_LETTERS = re.compile(r"[A-Z]{1,2}\d{2,3}$")


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per cache folder with compiled files in it."""
    roots = _roots(env, policy)
    if not roots:
        return
    files: dict[str, list[str]] = defaultdict(list)
    for path, fact in env.tree.entries.items():
        if not fact.is_file or fact.size == 0 or path in env.owners or path.endswith(SOURCES):
            continue
        root = _outermost(path, roots)
        if root:
            files[root].append(path)
    identity = _identity(env)
    for root, paths in sorted(files.items()):
        bare = [path for path in paths if not _says_for_what(path, identity)]
        if bare:
            yield _finding(env, roots[root], root, sorted(bare))


def _roots(env: Environment, policy: Policy) -> dict[str, Cache]:
    """Folders that are called like a cache, and those that the target's variables name, by path."""
    found: dict[str, Cache] = {}
    ends = _ends()
    for path, fact in env.tree.entries.items():
        if not fact.is_folder:
            continue
        name = path[path.rfind("/") + 1 :]
        for end, cache in ends.get(name, ()):
            if path == end or path.endswith(f"/{end}"):
                found.setdefault(path, cache)
        if name.startswith("torchinductor_"):
            found.setdefault(path, _wildcard(name))
    settings = settings_of(env)
    for cache in load_jit().caches:
        for variable in cache.variables:
            setting = settings.get(variable)
            if setting is not None and setting.is_known and setting.value.startswith("/"):
                place = locate(env, policy, f"{setting.value.rstrip('/')}/{cache.below}".rstrip("/"))
                if place.path and env.tree.entries[place.path].is_folder:
                    found.setdefault(place.path, cache)
    return found


@functools.cache
def _ends() -> dict[str, tuple[tuple[str, Cache], ...]]:
    """Ends of paths by their last component."""
    found: dict[str, list[tuple[str, Cache]]] = defaultdict(list)
    for cache in load_jit().caches:
        for end in cache.folders:
            found[end.rpartition("/")[2]].append((end, cache))
    return {name: tuple(ends) for name, ends in found.items()}


def _wildcard(name: str) -> Cache:
    return next(cache for cache in load_jit().caches if any(fnmatchcase(name, end) for end in cache.folders))


def _outermost(path: str, roots: dict[str, Cache]) -> str:
    """The highest cache folder that ``path`` lies in, or empty."""
    at = path.find("/")
    while at >= 0:
        if path[:at] in roots:
            return path[:at]
        at = path.find("/", at + 1)
    return ""


def _identity(env: Environment) -> str:
    """First digits of the environment's own identity, which the activation contract puts into the path of caches."""
    return env.image.labels.get("io.orbit.environment", "")[:12] if env.image else ""


@functools.cache
def _gpu_names() -> frozenset[str]:
    names = {word for row in table().capabilities for device in row.devices for word in re.split(r"\W+", device)}
    return frozenset(name for name in names if GPU_LETTERS.match(name))


def _says_for_what(path: str, identity: str) -> bool:
    """Whether the folders of ``path`` name an architecture and a version."""
    parts = path.split("/")[:-1]
    arch = any(
        ARCH.search(part) or FLASHINFER_ARCH.match(part) or _gpu_names().intersection(re.split(r"[^A-Za-z0-9]+", part))
        for part in parts
    )
    version = any(VERSION.search(part) or (identity and part.startswith(identity)) for part in parts)
    return arch and version


def _finding(env: Environment, cache: Cache, root: str, paths: list[str]) -> Finding:
    size = sum(env.tree.entries[path].size for path in paths)
    guarded = f"; its entries are named by {cache.keyed}" if cache.keyed else ""
    return Finding(
        rule=ID,
        severity=Severity.WARNING if cache.keyed else Severity.ERROR,
        subject=root,
        message=(
            f"a cache of {cache.name} with {len(paths)} compiled file{'s' if len(paths) > 1 else ''} "
            f"whose path names no architecture and version{guarded}"
        ),
        evidence={"files": ", ".join(paths[:SHOWN]) + (", ..." if len(paths) > SHOWN else ""), "bytes": str(size)},
        fix="delete it in the step that made it, or put GPU architecture and version into its path",
    )
