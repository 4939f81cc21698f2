"""What a platform tag of a wheel promises: machine, C library, symbol versions, and libraries the system must have.

The numbers are data, ``kernels/expectations/manylinux.toml``. PEP 600 lets any glibc release be a floor; a release that
is not in the table has the symbol families of the next one that is, so that nothing sound is called broken.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from orbit.audit.binary.dynamic import VersionNeed
from orbit.audit.facts import Environment
from orbit.audit.known.policy import System, load_system
from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.errors import InputError

type Family = Literal["glibc", "musl", "linux", "any"]

GLIBC_TAG = re.compile(r"^manylinux_(2)_(\d{1,4})_(\w+)$")
LEGACY_TAG = re.compile(r"^(manylinux[0-9]+)_(\w+)$")
MUSL_TAG = re.compile(r"^musllinux_(\d{1,4})_(\d{1,4})_(\w+)$")
LINUX_TAG = re.compile(r"^linux_(\w+)$")
VERSION = re.compile(r"^([A-Za-z]+)_(\d+(?:\.\d+)*)$")
"""``GLIBC_2.34``: family and number. Other names (``CXXABI_TM_1``) are versions without a number."""


class Floor(Record, frozen=True, kw_only=True):
    """What every distribution with one glibc release has."""

    glibc: int
    """Minor release: 34 is glibc 2.34."""
    alias: str = ""
    """Name of the tag before PEP 600."""
    versions: dict[str, str]
    """Highest version by symbol family."""
    names: tuple[str, ...] = ()
    """Versions without a number that are there from this release on."""
    aarch64: dict[str, str] = {}
    """Where that machine differs from ``versions``."""

    def highest(self, family: str, machine: str) -> str | None:
        """The highest version of a symbol family; None for a family that no floor knows."""
        special = self.aarch64 if machine == "aarch64" else {}
        return special.get(family, f"2.{self.glibc}" if family == "GLIBC" else self.versions.get(family))


class Libraries(Record, frozen=True, kw_only=True):
    """Libraries that a wheel may take from the system."""

    sonames: tuple[str, ...]
    """Shell patterns."""
    since: int = 0
    """The first glibc minor release whose floor has them."""


class Policies(Record, frozen=True, kw_only=True):
    """``kernels/expectations/manylinux.toml``."""

    schema: int
    machines: dict[str, int]
    """``e_machine`` by the machine part of a tag."""
    libraries: tuple[Libraries, ...]
    musl: Libraries
    floors: tuple[Floor, ...]
    """In rising order of glibc."""

    def floor(self, glibc: int) -> Floor:
        """The table's floor for glibc 2.``glibc``, itself or the next one above it; the last when there is none."""
        found = next((item for item in self.floors if item.glibc >= glibc), self.floors[-1])
        return (
            found
            if found.glibc == glibc
            else Floor(
                glibc=glibc, versions=found.versions, aarch64={k: v for k, v in found.aarch64.items() if k != "GLIBC"}
            )
        )

    def allows(self, promise: Promise, soname: str) -> bool:
        """Whether every system that the tag names has this library."""
        if promise.family == "musl":
            return _matches(soname, self.musl.sonames)
        return any(_matches(soname, item.sonames) for item in self.libraries if item.since <= promise.release[1])


class Promise(NamedTuple):
    """What one platform tag says."""

    tag: str
    family: Family
    release: tuple[int, int]
    """Of the C library; (0, 0) when the tag names none."""
    machine: str
    """``x86_64``; empty for ``any``."""


@functools.cache
def load_policies() -> Policies:
    """The table of tags. Raises :class:`InputError` naming file and key."""
    path = data_file("kernels", "expectations", "manylinux.toml")
    found = load_toml(path, Policies)
    if found.schema != 1:
        raise InputError(f"{path}: schema {found.schema} is not known", fix="this version of orbit reads schema 1")
    order = [floor.glibc for floor in found.floors]
    if not order or order != sorted(set(order)):
        raise InputError(f"{path}: floors are not in rising order of glibc", fix="sort them, each release once")
    return found


def promise_of(platform: str) -> Promise | None:
    """What a platform tag promises on Linux; None for a tag of another system, or one that cannot be read."""
    if platform == "any":
        return Promise(platform, "any", (0, 0), "")
    if match := GLIBC_TAG.match(platform):
        return Promise(platform, "glibc", (int(match[1]), int(match[2])), match[3])
    if match := MUSL_TAG.match(platform):
        return Promise(platform, "musl", (int(match[1]), int(match[2])), match[3])
    if match := LEGACY_TAG.match(platform):
        floor = next((item for item in load_policies().floors if item.alias == match[1]), None)
        return Promise(platform, "glibc", (2, floor.glibc), match[2]) if floor else None
    match = LINUX_TAG.match(platform)
    return Promise(platform, "linux", (0, 0), match[1]) if match else None


def base_glibc(system: System | None = None) -> int:
    """Minor release of the base image's glibc, from ``system.toml``; 0 when that names none."""
    system = system or load_system(data_file("kernels", "expectations", "system.toml"))
    libc = system.find("libc.so.6")
    return number(libc.versions.get("GLIBC", "2.0"))[1] if libc else 0


def host_glibc(env: Environment, system: System) -> int:
    """Minor release of the glibc that the target runs with: an image's own, else the base image's."""
    found = [
        number(match[2])[1]
        for item in env.objects
        if item.dynamic and item.dynamic.soname == "libc.so.6"
        for version in item.dynamic.defines
        if (match := VERSION.match(version)) and match[1] == "GLIBC" and match[2].startswith("2.")
    ]
    return max(found, default=0) or base_glibc(system)


def number(text: str) -> tuple[int, ...]:
    """``2.34`` as (2, 34)."""
    return tuple(int(part) for part in text.split("."))


def above(needs: Iterable[VersionNeed], glibc: int, machine: str) -> Iterator[VersionNeed]:
    """The needs that a system with glibc 2.``glibc`` need not have. Weak ones are left out: the loader does without."""
    policies = load_policies()
    floor = policies.floor(glibc)
    known = {name: item.glibc for item in policies.floors for name in item.names}
    for need in needs:
        if need.weak:
            continue
        if need.version in known:
            if known[need.version] > glibc:
                yield need
            continue
        match = VERSION.match(need.version)
        highest = floor.highest(match[1], machine) if match else None
        if match and highest is not None and number(match[2]) > number(highest):
            yield need


def lowest_floor(needs: Iterable[VersionNeed], machine: str, sonames: Iterable[str] = ()) -> int | None:
    """Minor release of the oldest listed glibc whose systems have all ``needs`` and ``sonames``; None when none has."""
    needs, sonames = tuple(needs), tuple(sonames)
    policies = load_policies()
    for floor in policies.floors:
        promise = Promise("", "glibc", (2, floor.glibc), machine)
        fits = not any(True for _ in above(needs, floor.glibc, machine))
        if fits and all(policies.allows(promise, soname) for soname in sonames):
            return floor.glibc
    return None


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
