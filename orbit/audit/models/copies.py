"""Copies of the libraries that a process should have once, and who gets which of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from orbit.audit.facts import Distribution, Environment, SharedObject
from orbit.audit.files.releases import number
from orbit.audit.known.knowledge import Family, libraries, plain_name
from orbit.audit.models.loader import Loader

MAJOR = re.compile(r"^(.+?\.so)(?:\.(\d+))?")
COMPARED = 3
"""Numbers of a release that are compared: wheels count repackagings in the fourth."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of a library."""

    item: SharedObject
    family: Family
    key: str
    """What is the same for copies that cannot be told apart by their users: name and major (``libnccl.so.2``)."""
    release: str
    """What its bytes state, else what libraries beside it state, else the version of its distribution."""
    by: str
    """Where the release is from: ``file``, ``folder``, ``distribution``; empty when it is not known."""

    @property
    def folder(self) -> str:
        """Its folder."""
        return self.item.path.rpartition("/")[0]


def copies_of(env: Environment, loader: Loader) -> tuple[Copy, ...]:
    """Every copy of every listed library, one for each folder and key, in order of path."""
    known = libraries()
    beside = _beside(loader)
    found: dict[tuple[str, str], Copy] = {}
    for item in sorted(env.objects, key=lambda item: item.path):
        if item.dynamic is None or item.machine != loader.machine or "/stubs/" in f"/{item.path}":
            continue
        folder, _, name = item.path.rpartition("/")
        family = known.family_of(name, item.dynamic.soname)
        if family is None or not family.has(name, item.dynamic.soname):
            continue
        key = key_of(item.dynamic.soname or name)
        place = folder, key
        if place not in found or name == item.dynamic.soname:
            release, by = _release(env, item, family, beside.get((folder, family.name), ""))
            found[place] = Copy(item, family, key, release, by)
    return tuple(sorted(found.values(), key=lambda copy: copy.item.path))


def key_of(soname: str) -> str:
    """Name and major of a soname, without the hash of a private copy: ``libgomp-6a29c32d.so.1.0.0`` is libgomp.so.1."""
    match = MAJOR.match(plain_name(soname))
    return ".".join(part for part in match.groups() if part) if match else soname


def scopes(env: Environment, copies: Iterable[Copy]) -> list[list[Copy]]:
    """Copies that can meet in one process: those of one site-packages with those that lie in none."""
    by_site: dict[str, list[Copy]] = defaultdict(list)
    for copy in copies:
        by_site[site_of(env, copy.item.path)].append(copy)
    shared = by_site.pop("", [])
    return [sorted([*found, *shared], key=lambda copy: copy.item.path) for found in by_site.values()] or [shared]


def site_of(env: Environment, path: str) -> str:
    """The site-packages folder that a path lies in; empty for none, or where the root is site-packages."""
    return next((site for site in env.layout.sites if site and path.startswith(f"{site}/")), "")


def same_release(one: str, other: str) -> bool:
    """Whether two statements can mean one release: equal as far as both go, three numbers at most."""
    pairs = zip(number(one)[:COMPARED], number(other)[:COMPARED], strict=False)
    return all(left == right for left, right in pairs)


def same_content(env: Environment, one: Copy, other: Copy) -> bool:
    """Whether two copies are known to be the same: by digest, else by release."""
    digests = env.digests.get(one.item.path, ""), env.digests.get(other.item.path, "")
    if digests[0] and digests[0] == digests[1] and digests[0][0] != "!":
        return True
    if not one.release or not other.release:
        entries = env.tree.entries
        return entries[one.item.path].size == entries[other.item.path].size
    return same_release(one.release, other.release)


def users_of(loader: Loader, copies: Iterable[Copy]) -> dict[str, list[str]]:
    """Paths of the objects that need each copy, by the copy's path; with several providers, they are users of all."""
    wanted = {copy.item.path for copy in copies}
    found: dict[str, list[str]] = {path: [] for path in wanted}
    for item in loader.objects.values():
        if item.machine == loader.machine:
            for _soname, resolution in loader.needed(item):
                for path in resolution.paths:
                    if path in wanted and path != item.path:
                        found[path].append(item.path)
    return {path: sorted(set(users)) for path, users in found.items()}


def dists_of(env: Environment, family: Family) -> tuple[Distribution, ...]:
    """Installed distributions that bring the library."""
    return tuple(dist for dist in env.dists if any(fnmatchcase(dist.name, pattern) for pattern in family.dists))


def _beside(loader: Loader) -> dict[tuple[str, str], str]:
    """The release that members of a family state, by folder and family: libcudnn.so.9 itself states none."""
    found: dict[tuple[str, str], str] = {}
    for item in loader.objects.values():
        if item.release and item.dynamic is not None:
            folder, _, name = item.path.rpartition("/")
            family = libraries().family_of(name, item.dynamic.soname)
            if family is not None and family.members:
                found.setdefault((folder, family.name), item.release)
    return found


def _release(env: Environment, item: SharedObject, family: Family, beside: str) -> tuple[str, str]:
    if item.release:
        return item.release, "file"
    if beside:
        return beside, "folder"
    owner = env.owners.get(item.path, "")
    version = next((dist.version for dist in dists_of(env, family) if dist.name == owner), "")
    return version, "distribution" if version else ""
