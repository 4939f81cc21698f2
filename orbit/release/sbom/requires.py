"""Which distribution needs which, resolved within one environment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from packaging.markers import InvalidMarker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from orbit.audit.facts import Distribution
from orbit.profile.platform import MARKER_ENVIRONMENT

MAX_CHARS = 2000


def marker_environment(python: str) -> dict[str, str]:
    """What markers see in an image for CPython ``python`` (``3.12.1``). Nothing of this machine is in it."""
    return {
        **MARKER_ENVIRONMENT,
        "implementation_version": python,
        "python_full_version": python,
        "python_version": ".".join(python.split(".")[:2]),
    }


def dependencies(dists: Sequence[Distribution], python: str, roots: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """Name -> names of the distributions among ``dists`` that it requires, sorted.

    Extras count where some distribution asks for them; of ``roots`` (what was installed for its extras) all count.
    """
    there = {dist.name for dist in dists}
    parsed = {dist.name: [item for text in dist.requires if (item := _parse(text))] for dist in dists}
    environment = marker_environment(python)
    extras: dict[str, set[str]] = defaultdict(lambda: {""})
    for dist in dists:
        if dist.name in roots:
            extras[dist.name] |= set(dist.extras)
    edges: dict[str, set[str]] = defaultdict(set)
    pending = [(name, extra) for name in sorted(there) for extra in sorted(extras[name])]
    while pending:
        name, extra = pending.pop()
        for requirement in parsed[name]:
            target = canonicalize_name(requirement.name)
            if target not in there or not _applies(requirement, environment, extra):
                continue
            if target != name:
                edges[name].add(target)
            for more in map(canonicalize_name, requirement.extras):
                if more not in extras[target]:
                    extras[target].add(more)
                    pending.append((target, more))
    return {name: tuple(sorted(found)) for name, found in sorted(edges.items())}


def _parse(text: str) -> Requirement | None:
    try:
        return Requirement(text) if len(text) <= MAX_CHARS else None
    except (InvalidRequirement, RecursionError):
        return None


def _applies(requirement: Requirement, environment: Mapping[str, str], extra: str) -> bool:
    if requirement.marker is None:
        return True
    try:
        return requirement.marker.evaluate({**environment, "extra": extra})
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName, InvalidVersion):
        return False
