"""One side of a comparison: a lock as one profile installs it, with what is declared about that profile."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from orbit.profile.diff.records import Side
from orbit.profile.lock import Lock, Package
from orbit.profile.model import GpuTarget, Profile

GLIBC = re.compile(r"manylinux_(\d+)_(\d+)_")
LEGACY = {"manylinux2014": (2, 17), "manylinux2010": (2, 12), "manylinux1": (2, 5)}
RUNTIME = re.compile(r"nvidia-cuda-runtime(-cu\d+)?")


@dataclass(frozen=True, slots=True)
class RecipeFact:
    """What of a kernel recipe decides about rebuilding."""

    name: str
    dist: str
    mode: str
    """``source``, ``prebuilt`` or ``jit``."""
    group: str
    """Dependency group it is compiled or judged with."""


@dataclass(frozen=True, slots=True)
class GapFact:
    """A declared library without machine code for a target (``[[gaps]]`` of the expectations)."""

    file: str
    target: str
    result: str
    reason: str


@dataclass(frozen=True)
class View:
    """A lock as a profile uses it."""

    label: str
    lock: Lock
    profile: Profile
    recipes: tuple[RecipeFact, ...] = ()
    gaps: tuple[GapFact, ...] = ()

    @functools.cached_property
    def installed(self) -> dict[str, tuple[Package, ...]]:
        """What the environment has, by name; several where the lock has several versions."""
        return _by_name(self.lock.closure(self.profile.extras))

    @functools.cached_property
    def groups(self) -> tuple[str, ...]:
        """The dependency groups that the recipes are compiled with, those the lock has."""
        wanted = dict.fromkeys(recipe.group for recipe in self.recipes)
        return tuple(group for group in wanted if group in self.lock.root.dev_dependencies)

    @functools.cached_property
    def packages(self) -> dict[str, tuple[Package, ...]]:
        """What is installed, and what kernels are compiled with."""
        beside = self.lock.closure(groups=self.groups, project=False) if self.groups else ()
        return _by_name([*(p for found in self.installed.values() for p in found), *beside])

    def group(self, name: str) -> tuple[tuple[str, str, str], ...]:
        """Name, version and file of everything a group installs; empty when the lock does not have the group."""
        if name not in self.groups:
            return ()
        packages = self.lock.closure(groups=(name,), project=False)
        return tuple((package.name, package.version, bytes_of((package,))) for package in packages)

    @property
    def cuda(self) -> str:
        """``major.minor`` of the CUDA runtime in the lock; empty when there is none."""
        found = [packages[0].version for name, packages in self.packages.items() if RUNTIME.fullmatch(name)]
        return ".".join(found[0].split(".")[:2]) if found else ""

    @property
    def targets(self) -> dict[str, GpuTarget]:
        """By name."""
        return {target.name: target for target in self.profile.targets}

    @functools.cached_property
    def floors(self) -> dict[tuple[int, int], tuple[str, ...]]:
        """Oldest glibc -> names of the distributions whose wheels need it."""
        found: dict[tuple[int, int], list[str]] = {}
        for name, packages in self.installed.items():
            floor = max((_glibc(p.wheel.filename) for p in packages if p.wheel), default=(0, 0))
            if floor > (0, 0):
                found.setdefault(floor, []).append(name)
        return {floor: tuple(sorted(names)) for floor, names in found.items()}

    def side(self) -> Side:
        """What the answer says of it."""
        floor = max(self.floors, default=None)
        return Side(
            label=self.label,
            profile=self.profile.name,
            lock_sha256=self.lock.sha256,
            packages=len(self.installed),
            download_bytes=sum(size(packages) for packages in self.installed.values()),
            python=self.lock.requires_python,
            cuda=self.cuda,
            glibc=f"{floor[0]}.{floor[1]}" if floor else "",
            targets=tuple(f"{t.name} {t.capability} {t.feature}" for t in self.profile.targets),
        )


def version(packages: Sequence[Package]) -> str:
    """The version; several as one text."""
    return " + ".join(package.version or "0" for package in packages)


def size(packages: Sequence[Package]) -> int:
    """Bytes of the files that are downloaded."""
    return sum(artifact.size for p in packages if (artifact := p.wheel or p.sdist) is not None)


def bytes_of(packages: Sequence[Package]) -> str:
    """What tells the content of one file from another: sha256, else the place it comes from."""
    files = [((p.wheel or p.sdist), p.source.url) for p in packages]
    return " ".join(artifact.sha256 if artifact and artifact.sha256 else url for artifact, url in files)


def place(packages: Sequence[Package]) -> str:
    """Where it comes from: kind of source, and the place for all but an index."""
    sources = [package.source for package in packages]
    return " ".join(each.kind if each.kind == "registry" else f"{each.kind} {each.url}" for each in sources)


def is_binary(packages: Sequence[Package]) -> bool:
    """Whether a file of it is for one platform only, or has to be built."""
    return any(p.wheel is None or not p.wheel.filename.endswith("-none-any.whl") for p in packages)


def _by_name(packages: Sequence[Package]) -> dict[str, tuple[Package, ...]]:
    found: dict[str, dict[str, Package]] = {}
    for package in packages:
        found.setdefault(package.name, {})[package.version] = package
    return {name: tuple(each[key] for key in sorted(each)) for name, each in sorted(found.items())}


def _glibc(filename: str) -> tuple[int, int]:
    """The lowest of the floors a wheel names: it runs on all of them."""
    found = [(int(major), int(minor)) for major, minor in GLIBC.findall(filename)]
    found += [floor for tag, floor in LEGACY.items() if f"{tag}_" in filename]
    return min(found, default=(0, 0))
