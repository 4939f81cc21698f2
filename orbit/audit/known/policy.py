"""What is right for one profile, as data: coverage modes, declared gaps, waivers, libraries the image or host brings.

``kernels/expectations/<file>.toml`` (named by the profile) says what is expected of the libraries in the environment;
``system.toml`` beside it says what comes from the base image and from the driver. Every entry needs a reason, and one
that no longer matches anything is a finding of its own: stale exceptions hide new defects.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.env.activate import activation
from orbit.errors import InputError
from orbit.profile.lock import Lock
from orbit.profile.model import Profile

DEFAULT_UID = 65534


class Dispatching(Record, frozen=True, kw_only=True):
    """Vendor libraries that choose among their own containers by architecture at run time."""

    files: tuple[str, ...]
    """Shell patterns, relative to site-packages."""
    reason: str


class Gap(Record, frozen=True, kw_only=True):
    """Containers of one file that have no machine code for a target, by the upstream project's design."""

    file: str
    """Relative to site-packages."""
    target: str
    """Name of the profile's target."""
    result: Literal["none", "ptx-jit"]
    containers: int
    """How many containers have this result: one more or less is a finding."""
    served_by: tuple[str, ...] = ()
    """Files (patterns relative to site-packages) that do this work on the target; at least one must be there."""
    reason: str


class Feature(Record, frozen=True, kw_only=True):
    """Files whose kernels need a target's own instructions: only machine code with a suffix (``a``, ``f``) has them."""

    files: tuple[str, ...]
    """Shell patterns, relative to site-packages."""
    target: str
    """Name of the profile's target."""
    containers: int = 0
    """At least so many containers must have it; 0: every one that has machine code for the target."""
    reason: str


class Stub(Record, frozen=True, kw_only=True):
    """Kernels of one file that do nothing on a target, by the upstream project's design (``--deep``)."""

    file: str
    """Relative to site-packages."""
    target: str
    """Name of the profile's target."""
    kernels: tuple[str, ...]
    """Shell patterns over mangled names."""
    count: int
    """How many there are: one more or less is a finding."""
    reason: str


class Absent(Record, frozen=True, kw_only=True):
    """Sonames that nobody provides because the files that need them are optional."""

    files: tuple[str, ...]
    """Shell patterns, relative to site-packages."""
    sonames: tuple[str, ...]
    """Shell patterns."""
    reason: str
    only: Literal["", "wheels"] = ""
    """``wheels``: of wheels before they are installed; an environment has it (the library of the interpreter)."""


class Waiver(Record, frozen=True, kw_only=True):
    """A finding that is known and accepted until a date."""

    rule: str
    subject: str
    """Shell pattern over the finding's subject."""
    reason: str
    expires: dt.date
    only: Literal["", "wheels"] = ""
    """``wheels``: of wheels before they are installed. What is installed from them has no such finding."""

    def covers(self, rule: str, subject: str, kind: str) -> bool:
        """Whether it is about this finding in a target of this ``kind`` (its expiry is judged apart)."""
        return self.concerns(kind) and rule == self.rule and fnmatchcase(subject, self.subject)

    def concerns(self, kind: str) -> bool:
        """Whether it says something about targets of this kind (``Environment.kind``, or ``lock``)."""
        return self.only in ("", kind)


class Expectations(Record, frozen=True, kw_only=True):
    """One file of ``kernels/expectations``."""

    schema: int
    dispatching: tuple[Dispatching, ...] = ()
    gaps: tuple[Gap, ...] = ()
    features: tuple[Feature, ...] = ()
    stubs: tuple[Stub, ...] = ()
    absent: tuple[Absent, ...] = ()
    waivers: tuple[Waiver, ...] = ()

    def absent_in(self, kind: str) -> tuple[Absent, ...]:
        """The [[absent]] entries that are about a target of this ``kind``."""
        return tuple(entry for entry in self.absent if entry.only in ("", kind))


class BaseLibrary(Record, frozen=True, kw_only=True):
    """A library that the base image brings."""

    sonames: tuple[str, ...]
    package: str
    """Name of the base distribution's package."""
    versions: dict[str, str] = {}
    """Highest symbol version it defines, by prefix: ``{GLIBC = "2.36"}``. Other prefixes are not checked."""


class System(Record, frozen=True, kw_only=True):
    """``kernels/expectations/system.toml``: what is not in the environment and must not be."""

    schema: int
    driver: tuple[str, ...]
    """Sonames of the GPU driver, mounted from the host at run time (shell patterns)."""
    base: tuple[BaseLibrary, ...]

    def find(self, soname: str) -> BaseLibrary | None:
        """The base library of that soname."""
        return next((library for library in self.base if soname in library.sonames), None)

    def is_driver(self, soname: str) -> bool:
        """Whether the GPU driver brings it."""
        return any(fnmatchcase(soname, pattern) for pattern in self.driver)


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything a rule may compare facts with."""

    profile: Profile
    expectations: Expectations
    system: System
    uid: int
    today: dt.date
    library_path: tuple[str, ...] = ()
    """Folders of ``LD_LIBRARY_PATH`` as the image sets it; those of the environment begin with the image's prefix."""
    gids: frozenset[int] = frozenset()
    """Groups of the user besides the one of its own number and those that the target's ``/etc/group`` gives it."""
    lock: Lock | None = None
    """The lock that the caller says the target is an installation of (``--lock``); None: nothing was said."""


def load_policy(
    profile: Profile,
    *,
    uid: int = DEFAULT_UID,
    today: dt.date | None = None,
    extra: tuple[Path, ...] = (),
    gids: frozenset[int] = frozenset(),
) -> Policy:
    """Read the data files of ``profile``, and ``extra`` expectations files of whoever calls.

    Raises :class:`InputError` naming file and key.
    """
    system = load_system(data_file("kernels", "expectations", "system.toml"))
    paths = (*(data_file("kernels", "expectations", name) for name in profile.expectations), *extra)
    merged = merge(paths, [load_expectations(path, profile) for path in paths])
    today = today or dt.datetime.now(dt.UTC).date()
    return Policy(profile, merged, system, uid, today, library_path(profile), gids)


def merge(paths: Sequence[Path], parts: Sequence[Expectations]) -> Expectations:
    """The entries of several files as one. Raises :class:`InputError` when two of them declare one gap."""
    declared: dict[tuple[str, str, str], Path] = {}
    for path, part in zip(paths, parts, strict=True):
        for gap in part.gaps:
            other = declared.setdefault((gap.file, gap.target, gap.result), path)
            if other != path:
                raise InputError(
                    f"{path}: gaps {gap.file} {gap.target} {gap.result} is also declared in {other}",
                    fix="keep one [[gaps]] table",
                )
    return Expectations(
        schema=1,
        dispatching=tuple(item for part in parts for item in part.dispatching),
        gaps=tuple(item for part in parts for item in part.gaps),
        features=tuple(item for part in parts for item in part.features),
        stubs=tuple(item for part in parts for item in part.stubs),
        absent=tuple(item for part in parts for item in part.absent),
        waivers=tuple(item for part in parts for item in part.waivers),
    )


def library_path(profile: Profile) -> tuple[str, ...]:
    """``LD_LIBRARY_PATH`` of a process in the image: the activation contract's, or the profile's own."""
    prefix = profile.image.prefix
    contract = {variable.name: variable.value for variable in activation(prefix) if variable.how == "set"}
    value = profile.image.env.get("LD_LIBRARY_PATH", contract.get("LD_LIBRARY_PATH", ""))
    return tuple(folder for folder in value.replace("{prefix}", prefix).split(":") if folder)


def load_system(path: Path) -> System:
    """Read ``system.toml``."""
    system = load_toml(path, System)
    _schema(path, system.schema)
    for library in system.base:
        for prefix, version in library.versions.items():
            if not re.fullmatch(r"\d+(\.\d+)*", version):
                raise InputError(
                    f"{path}: base {library.package}: versions.{prefix} = {version!r}", fix='write it as "2.36"'
                )
    return system


def load_expectations(path: Path, profile: Profile) -> Expectations:
    """Read one expectations file and check it against the profile's targets."""
    found = load_toml(path, Expectations)
    _schema(path, found.schema)
    targets = {target.name for target in profile.targets}
    named = [("gaps", gap.file, gap.target) for gap in found.gaps]
    named += [("features", " ".join(feature.files), feature.target) for feature in found.features]
    named += [("stubs", stub.file, stub.target) for stub in found.stubs]
    for table, files, target in named:
        if target not in targets:
            raise InputError(
                f"{path}: {table} {files}: target {target!r} is not in profile {profile.name}",
                fix=f"use one of {', '.join(sorted(targets))}",
            )
    for gap in found.gaps:
        if gap.containers < 1:
            raise InputError(
                f"{path}: gaps {gap.file}: containers = {gap.containers}", fix="state how many containers have the gap"
            )
    seen = [(gap.file, gap.target, gap.result) for gap in found.gaps]
    for key in seen:
        if seen.count(key) > 1:
            raise InputError(f"{path}: gaps {' '.join(key)} is declared twice", fix="keep one [[gaps]] table")
    entries: tuple[Dispatching | Gap | Feature | Stub | Absent | Waiver, ...]
    entries = (*found.dispatching, *found.gaps, *found.features, *found.stubs, *found.absent, *found.waivers)
    for entry in entries:
        if len(entry.reason.split()) < 4:
            raise InputError(
                f"{path}: {type(entry).__name__.lower()}: reason {entry.reason!r} explains nothing",
                fix="write why this is right, so that the next reader can check it",
            )
    return found


def matches(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path matches one of the shell patterns (``*`` also crosses ``/``)."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def _schema(path: Path, schema: int) -> None:
    if schema != 1:
        raise InputError(f"{path}: schema {schema} is not known", fix="this version of orbit reads schema 1")
