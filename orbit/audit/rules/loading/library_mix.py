"""library-mix: what belongs together is of one release and from one folder.

The sub-libraries of cuDNN are opened by name: an ``LD_LIBRARY_PATH`` that names a system cuDNN splits the one of the
wheels. A kernel library with NVSHMEM's device half linked in must meet the host half of its release. And a process that
has libraries of two CUDA majors has two runtimes that know nothing of each other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from orbit.audit.facts import Environment, SharedObject
from orbit.audit.files.releases import number
from orbit.audit.known.knowledge import Family, libraries, major_of
from orbit.audit.known.policy import Policy
from orbit.audit.models.copies import Copy, copies_of, same_release, site_of
from orbit.audit.models.loader import Loader, loader_of
from orbit.core.findings import Finding, Severity

ID = "library-mix"
TITLE = "libraries that belong together are of one release, one folder and one CUDA major"
SHOWN = 4
SUFFIXED = re.compile(r"^(.+?)-cu(1\d)$")
REQUIRED_NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per product that is split, per kernel library with the wrong half, and for CUDA majors."""
    loader = loader_of(env, policy)
    copies = copies_of(env, loader)
    for copy in copies:
        if copy.family.members:
            yield from _members(env, loader, copy)
    yield from _embedded(env, loader, copies)
    yield from _majors(env, loader)
    yield from _side_by_side(env)


def _members(env: Environment, loader: Loader, copy: Copy) -> Iterator[Finding]:
    """Members that this copy would open from another folder, or that are of another release beside it."""
    assert copy.item.dynamic is not None
    members = _sonames_of_members(loader, copy.family)
    elsewhere = []
    releases: dict[str, list[str]] = defaultdict(list)
    if copy.item.release:
        releases[copy.item.release].append(copy.item.path.rpartition("/")[2])
    for soname in members:
        for path in loader.resolve(copy.item, soname).paths:
            if path.rpartition("/")[0] != copy.folder:
                elsewhere.append(path)
            elif loader.objects[path].release:
                releases[loader.objects[path].release].append(soname)
    if elsewhere:
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=env.in_site(copy.item.path),
            message=f"opens {len(elsewhere)} of its sub-libraries from another folder: two {copy.family.name} meet",
            evidence={
                "from": ", ".join(env.in_site(path) for path in elsewhere[:SHOWN]),
                "found by": loader.resolve(copy.item, elsewhere[0].rpartition("/")[2]).by or "being loaded first",
            },
            fix=f"keep one {copy.family.name}: take the other out of LD_LIBRARY_PATH and of the loader's folders",
        )
    if len(releases) > 1 and not all(same_release(next(iter(releases)), other) for other in releases):
        parts = (f"{release}: {', '.join(names[:SHOWN])}" for release, names in sorted(releases.items()))
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=env.in_site(copy.item.path),
            message=f"libraries of {len(releases)} {copy.family.name} releases lie in its folder",
            evidence={"releases": "; ".join(parts)},
            fix=f"install the distribution that brings {copy.family.name} again, and only one of them",
        )


def _sonames_of_members(loader: Loader, family: Family) -> list[str]:
    found = set()
    for item in loader.objects.values():
        name = item.path.rpartition("/")[2]
        if item.dynamic is not None and family.has_member(name, item.dynamic.soname):
            found.add(item.dynamic.soname or name)
    return sorted(found)


def _embedded(env: Environment, loader: Loader, copies: tuple[Copy, ...]) -> Iterator[Finding]:
    """Device halves linked into kernel libraries, against the host half that these get."""
    for item in env.objects:
        for family, release in item.embedded:
            for host in _hosts(env, loader, item, copies, family):
                if not host.release or same_release(host.release, release):
                    continue
                close = number(host.release)[:2] == number(release)[:2]
                yield Finding(
                    rule=ID,
                    severity=Severity.WARNING if close else Severity.ERROR,
                    subject=env.in_site(item.path),
                    message=f"has {family} {release} linked in and gets the host library of {host.release}",
                    evidence={"host library": env.in_site(host.item.path)},
                    fix=f"build it against the {family} that the environment has, or lock {family} {release}",
                )


def _hosts(
    env: Environment, loader: Loader, item: SharedObject, copies: tuple[Copy, ...], family: str
) -> Iterator[Copy]:
    """The copies that ``item`` gets: those it needs, else those of its site-packages or of none."""
    known = {copy.item.path: copy for copy in copies if copy.family.name == family}
    needed = {path for _soname, resolution in loader.needed(item) for path in resolution.paths} & known.keys()
    site = site_of(env, item.path)
    for path, copy in known.items():
        if path in needed or (not needed and site_of(env, path) in (site, "")):
            yield copy


def _majors(env: Environment, loader: Loader) -> Iterator[Finding]:
    """Objects that pull in libraries of two CUDA majors, directly or not."""
    majors = {
        item.path: major
        for item in loader.objects.values()
        if item.dynamic is not None and (major := major_of(item.dynamic.soname, libraries().majors))
    }
    if len(set(majors.values())) < 2:
        return
    both: dict[str, list[str]] = defaultdict(list)
    single: dict[str, set[str]] = defaultdict(set)
    for item in loader.objects.values():
        if item.machine != loader.machine or item.path in majors:
            continue
        reached = {majors[path] for path in loader.closure(item) if path in majors}
        if len(reached) > 1:
            both[" and ".join(sorted(reached))].append(env.in_site(item.path))
        for major in reached:
            single[major].add(env.in_site(item.path))
    for names, files in sorted(both.items()):
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=files[0],
            message=f"{len(files)} file{'s load' if len(files) > 1 else ' loads'} libraries of CUDA {names} together",
            evidence={"files": ", ".join(files[:SHOWN])},
            fix="use builds of one CUDA major: the one that torch was built for",
        )
    if not both and len(single) > 1:
        fewest = min(single, key=lambda major: (len(single[major]), major))
        yield Finding(
            rule=ID,
            severity=Severity.WARNING,
            subject=min(single[fewest]),
            message=f"files for CUDA {' and '.join(sorted(single))} are here: importing both kinds mixes two runtimes",
            evidence={f"CUDA {major}": ", ".join(sorted(files)[:SHOWN]) for major, files in sorted(single.items())},
            fix="use builds of one CUDA major: the one that torch was built for",
        )


def _side_by_side(env: Environment) -> Iterator[Finding]:
    """Distributions of one library for two CUDA majors, unless one distribution asks for both."""
    for site in dict.fromkeys(dist.site for dist in env.dists):
        dists = [dist for dist in env.dists if dist.site == site]
        names = {canonicalize_name(dist.name) for dist in dists}
        asked = [{canonicalize_name(match[1]) for line in dist.requires if (match := REQUIRED_NAME.match(line))}
                 for dist in dists]  # fmt: skip
        by_base: dict[str, set[str]] = defaultdict(set)
        for name in names:
            match = SUFFIXED.match(name)
            if match:
                by_base[match[1]].add(name)
            elif name.startswith("nvidia-") and f"{name}-cu12" in names:
                by_base[name].add(name)  # from CUDA 13 on NVIDIA's wheels of the toolkit have no suffix
        pairs = [found for found in by_base.values() if len(found) > 1 and not any(found <= wants for wants in asked)]
        if pairs:
            shown = [" and ".join(sorted(found)) for found in sorted(pairs, key=sorted)]
            yield Finding(
                rule=ID,
                severity=Severity.WARNING,
                subject=shown[0].split(" ", maxsplit=1)[0],
                message=f"{len(shown)} librar{'ies are' if len(shown) > 1 else 'y is'} installed for two CUDA majors",
                evidence={"distributions": "; ".join(shown[:SHOWN])},
                fix="remove those of the major that torch was not built for",
            )
