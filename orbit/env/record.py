"""What an environment says of itself: ``share/orbit/environment.json`` inside its prefix. No path of a host in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orbit.core.findings import Skipped
from orbit.core.records import Record, load_json
from orbit.errors import InputError
from orbit.kernels.manifest import Binary, BuildManifest

RECORD_PATH = "share/orbit/environment.json"
SCHEMA = 1


class Wheel(Protocol):
    """What the environment needs to know of a built wheel (:class:`orbit.kernels.build.BuiltWheel` has more)."""

    @property
    def dist(self) -> str:
        """Distribution name."""

    @property
    def version(self) -> str:
        """Distribution version."""

    @property
    def path(self) -> str:
        """Absolute path of the wheel file."""

    @property
    def sha256(self) -> str:
        """Of the wheel file, hex."""


class Wheelhouse(Protocol):
    """Wheels built from source and what was not built."""

    @property
    def wheels(self) -> Sequence[Wheel]:
        """The wheels to install besides the prebuilt ones of the lock."""

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Recipes that were not built, each with its reason."""


@dataclass(frozen=True, slots=True)
class NoWheels:
    """A wheelhouse in which nothing was built."""

    wheels: tuple[Wheel, ...] = ()
    skipped: tuple[Skipped, ...] = ()


NO_WHEELS: Wheelhouse = NoWheels()


class Distribution(Record, frozen=True, kw_only=True):
    """One installed distribution."""

    name: str
    """Normalised name."""
    version: str
    origin: str
    """``index``: a prebuilt wheel named by the lock; ``wheelhouse``: built by Orbit."""
    wheel: str
    """File name of the wheel."""
    sha256: str
    """Of the wheel, hex."""


class Contested(Record, frozen=True, kw_only=True):
    """One file that several distributions claim with different content."""

    path: str
    """Relative to the prefix."""
    kept: str
    """Whose content is on disk and whose RECORD lists it."""
    dropped: tuple[str, ...]
    """Whose RECORD no longer lists it."""


class Kernels(Record, frozen=True, kw_only=True):
    """Device code of one wheel that Orbit built: what was asked for, and what the build left in it."""

    dist: str
    version: str
    requested: tuple[str, ...]
    """``virtual:real`` pairs."""
    found: tuple[Binary, ...]


class EnvironmentRecord(Record, frozen=True, kw_only=True):
    """Identity and content of one environment."""

    schema: int
    identity: str
    """Content key of everything the environment was made from."""
    profile: str
    lock: str
    """sha256 of uv.lock."""
    prefix: str
    """Where the environment lives in the image; compiled files name their sources below it."""
    python: str
    """Full version of the interpreter, e.g. ``3.12.1``."""
    interpreter: str
    """Tree hash of the interpreter as copied and made relocatable."""
    system_libraries: tuple[str, ...]
    """Sonames the interpreter needs from the base of the image."""
    distributions: tuple[Distribution, ...]
    """Sorted by name."""
    skipped: tuple[Skipped, ...]
    """What the lock has and this environment lacks."""
    contested: tuple[Contested, ...]
    uncompiled: tuple[str, ...]
    """Files named ``*.py`` that are not Python 3.12 (templates, other dialects): no compiled form."""
    kernels: tuple[Kernels, ...] = ()
    """From the build manifests of the wheels that Orbit built; the audit compares it with the files."""


def kernels_of(wheels: Sequence[Wheel]) -> tuple[Kernels, ...]:
    """What the build manifests say, for wheels that have one, sorted by name."""
    manifests = [
        manifest for wheel in wheels if isinstance(manifest := getattr(wheel, "manifest", None), BuildManifest)
    ]
    found = [Kernels(dist=m.dist, version=m.version, requested=m.requested, found=m.found) for m in manifests]
    return tuple(sorted(found, key=lambda item: item.dist))


def read_environment(prefix: Path) -> EnvironmentRecord:
    """The record of the environment at ``prefix``. Raises :class:`InputError` when it is not one of Orbit's."""
    path = prefix / RECORD_PATH
    if not path.is_file():
        raise InputError(
            f"{prefix}: not an Orbit environment ({RECORD_PATH} is missing)", fix="make one with `orbit env create`"
        )
    record = load_json(path, EnvironmentRecord)
    if record.schema != SCHEMA:
        raise InputError(f"{path}: schema {record.schema} is not known", fix=f"this version of orbit reads {SCHEMA}")
    return record
