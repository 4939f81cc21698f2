"""Which requirements of distributions are not met by the distributions that are there. Pure; the machine is no input.

PEP 508 requirements are evaluated for the target's interpreter and machine. A requirement that hangs on an extra counts
only when that extra is asked for by a requirement that counts itself: missing optional parts are nobody's fault.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from orbit.audit.facts import Distribution, Environment, Layout, join
from orbit.audit.models.loader import native_machine

EXTRA = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)['"]""")
SITE = re.compile(
    r"^(?:(?P<prefix>.+)/)?lib(?:32|64)?/python(?P<major>\d+)(?:\.(?P<minor>\d+))?/(?:site|dist)-packages$"
)
VERSION_LINE = re.compile(rb"^\s*version(?:_info)?\s*=\s*(\d+\.\d+\.\d+)", re.MULTILINE)
CONDA_PYTHON = re.compile(r"(?:^|/)conda-meta/python-(\d+\.\d+\.\d+)-[^/]*\.json$")
SYSTEM_SITE = re.compile(rb"^\s*include-system-site-packages\s*=\s*true", re.MULTILINE | re.IGNORECASE)
MACHINES = {62: "x86_64", 183: "aarch64"}
"""``platform_machine`` by ``e_machine``."""
EGG_INFO = re.compile(r"^(?P<name>[^-]+)-(?P<version>[^-]+)(?:-py\d+(?:\.\d+)?)?\.egg-info$")
"""Metadata of the time before wheels: a folder or file of this name in site-packages."""
DISTRO_SITE = "usr/lib/python3/dist-packages"
"""What a Linux distribution's own packages install into: its package manager answers for their requirements."""


class Unmet(NamedTuple):
    """One requirement that is not met."""

    wanted: str
    """Normalised name of what is required."""
    specifier: str
    found: tuple[str, ...]
    """Versions that are there; empty: it is missing."""
    by: str
    version: str
    """Of ``by``."""
    extra: str
    """The extra of ``by`` that asks for it, or empty."""


class Unreadable(NamedTuple):
    """A ``Requires-Dist`` line that is not a requirement."""

    by: str
    line: str


def unmet(
    dists: Iterable[Distribution],
    markers: Mapping[str, str],
    *,
    present: Mapping[str, tuple[str, ...]],
    asked: Iterable[tuple[str, str]] = (),
) -> Iterator[Unmet | Unreadable]:
    """Requirements of ``dists`` that ``present`` (versions by name) does not meet, in an order that is stable.

    ``markers`` is the PEP 508 environment without ``extra``. ``asked`` are (name, extra) pairs that somebody outside
    wants, such as the project that was installed.
    """
    by_name: dict[str, list[Distribution]] = defaultdict(list)
    for dist in dists:
        by_name[dist.name].append(dist)
    queue = [(name, "") for name in by_name] + [pair for pair in asked if pair[0] in by_name]
    seen = set(queue)
    for name, extra in queue:
        for by, line in [(one, text) for one in by_name[name] for text in one.requires if _may_count(text, extra)]:
            item = parse(line)
            if item is None and not extra:
                yield Unreadable(name, line)
            if item is None or not _counts(item, markers, extra):
                continue
            wanted = canonicalize_name(item.name)
            found = present.get(wanted, ())
            if not any(_fits(item, version) for version in found):
                yield Unmet(wanted, str(item.specifier), found, name, by.version, extra)
            for part in sorted(canonicalize_name(part) for part in item.extras):
                if wanted in by_name and (wanted, part) not in seen:
                    seen.add((wanted, part))
                    queue.append((wanted, part))


@functools.lru_cache(maxsize=65536)
def parse(line: str) -> Requirement | None:
    """A requirement; None when the line is none."""
    try:
        return Requirement(line)
    except (ValueError, RecursionError):
        return None


def _may_count(line: str, extra: str) -> bool:
    """A quick no for the many lines that hang on an extra which is not meant, without parsing them."""
    if "extra" not in line:
        return not extra
    names = EXTRA.findall(line)
    if not names or " or " in line:
        return True
    return extra != "" and any(canonicalize_name(name) == extra for name in names)


def _counts(requirement: Requirement, markers: Mapping[str, str], extra: str) -> bool:
    """Whether its marker holds with ``extra``, and (for an extra) would not hold without it."""
    if requirement.marker is None:
        return not extra
    try:
        if extra and requirement.marker.evaluate({**markers, "extra": ""}):
            return False
        return requirement.marker.evaluate({**markers, "extra": extra})
    except (ValueError, UndefinedEnvironmentName, RecursionError):  # also numbers of thousands of digits
        return False


def _fits(requirement: Requirement, version: str) -> bool:
    if not requirement.specifier:
        return True  # also a requirement by URL: which file it was cannot be told from a version
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except ValueError:  # no version, or a number of thousands of digits
        return True  # nothing can be said


class Group(NamedTuple):
    """A site-packages folder with everything that an interpreter finds beside it."""

    site: str
    python: tuple[int, int] | None
    """None when the folder does not say."""
    dists: tuple[Distribution, ...]
    """Installed in ``site``."""
    beside: tuple[Distribution, ...]
    """Installed elsewhere on the same path."""


def groups(env: Environment) -> tuple[Group, ...]:
    """The site-packages folders of a target, the main one first, each with what can be imported beside it."""
    sites = env.layout.sites
    by_site: dict[str, list[Distribution]] = {site: [] for site in sites}
    for dist in env.dists:
        by_site.setdefault(dist.site, []).append(dist)
    found = []
    for site, dists in by_site.items():
        shared = [other for other in by_site if other != site and _same_path(env, site, other)]
        beside = tuple(dist for other in shared for dist in by_site[other])
        found.append(Group(site, python_of(env.layout, site), tuple(dists), beside))
    return tuple(found)


def python_of(layout: Layout, site: str) -> tuple[int, int] | None:
    """``major.minor`` of the interpreter that uses ``site``; None for the folder of any Python 3."""
    match = SITE.match(site)
    if match is None or site == layout.site:
        return layout.python
    return (int(match["major"]), int(match["minor"])) if match["minor"] else None


def _same_path(env: Environment, site: str, other: str) -> bool:
    """Whether an interpreter with ``site`` on its path has ``other`` on it too."""
    if not _is_open(env, site) or _is_virtual(env, other):
        return False
    pythons = python_of(env.layout, site), python_of(env.layout, other)
    return None in pythons or pythons[0] == pythons[1]


def _is_virtual(env: Environment, site: str) -> bool:
    return _config(env, site) is not None


def _is_open(env: Environment, site: str) -> bool:
    config = _config(env, site)
    return config is None or SYSTEM_SITE.search(config) is not None


def _config(env: Environment, site: str) -> bytes | None:
    match = SITE.match(site)
    prefix = (match["prefix"] or "") if match else ""
    return env.texts.get(join(prefix, "pyvenv.cfg"))


def full_version(env: Environment, site: str, python: tuple[int, int]) -> str:
    """``3.12.1`` of the interpreter of ``site`` where the target says it, else the last patch release there can be.

    Markers with a patch release ask for backports (``python_full_version < "3.11.3"``): the newest needs the fewest.
    """
    plain = ".".join(str(number) for number in python)
    config = _config(env, site)
    stated = [match[1].decode() for match in VERSION_LINE.finditer(config)] if config else []
    stated += [match[1] for path in env.texts if (match := CONDA_PYTHON.search(path))]
    return next((version for version in stated if version.startswith(f"{plain}.")), f"{plain}.99")


def marker_environment(env: Environment, group: Group) -> dict[str, str]:
    """The PEP 508 environment of a site-packages folder: CPython on Linux, of the target's own release and machine."""
    python = group.python or env.layout.python
    full = full_version(env, group.site, python)
    return {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": "posix",
        "platform_machine": MACHINES.get(native_machine(env), "x86_64"),
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": full,
        "python_version": ".".join(str(number) for number in python),
        "sys_platform": "linux",
    }


def versions_of(dists: Iterable[Distribution]) -> dict[str, tuple[str, ...]]:
    """Versions by name."""
    found: dict[str, tuple[str, ...]] = {}
    for dist in dists:
        found[dist.name] = (*found.get(dist.name, ()), dist.version)
    return found
