"""``containers/<name>.lock``: every Debian package of a base by version and sha256, and what changes between two locks.

The lock names no host: packages are found by their path in an archive's pool, wherever a copy of that archive is, and
known by their sha256.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from orbit.core.files import write_atomic
from orbit.core.paths import data_file
from orbit.core.records import Record, content_key, load_toml
from orbit.errors import InputError
from orbit.image.base.control import version_key
from orbit.image.base.definition import ARCHITECTURE, NAME, BaseDefinition

SCHEMA = 1
SHA256 = re.compile(r"[0-9a-f]{64}")
POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._~:%-]*(/[A-Za-z0-9][A-Za-z0-9+._~:%-]*)*\.deb")
REFRESH = "orbit image base refresh"
HEAD = (
    f"# Every Debian package of the base, made by `{REFRESH}`: change base.toml and run that, not this file.\n"
    "# `file` is the path in the archive that `archive` names; the archive may be any copy of it.\n"
)


class Release(Record, frozen=True, kw_only=True):
    """One suite of an archive as it was when the lock was made, by its signed Release file."""

    suite: str
    """As the definition names it."""
    codename: str
    label: str
    version: str = ""
    date: str
    """When Debian made it, UTC: ``2026-11-29T00:53:13Z``."""
    security: bool
    """Whether it carries security updates alone."""


class LockedPackage(Record, frozen=True, kw_only=True):
    """One package."""

    name: str
    version: str
    architecture: str
    source: str
    """Source package."""
    source_version: str
    archive: str
    """The suite whose archive has the file."""
    security: bool
    """Whether this version was published as a security update."""
    file: str
    """Path in the archive, ``pool/main/a/apt/apt_2.6.1_amd64.deb``."""
    size: int
    """Bytes."""
    sha256: str

    @property
    def deb(self) -> str:
        """The file's name."""
        return self.file.rpartition("/")[2]


class BaseLock(Record, frozen=True, kw_only=True):
    """``containers/<name>.lock``."""

    schema: int
    definition: str
    """:attr:`BaseDefinition.resolved_from` of the definition it was made for."""
    architecture: str
    archives: tuple[Release, ...]
    packages: tuple[LockedPackage, ...]
    """Sorted by name."""

    @property
    def size(self) -> int:
        """Bytes of all packages."""
        return sum(package.size for package in self.packages)

    @property
    def content(self) -> str:
        """sha256 over what the root file system is made of; the state of the archive does not enter."""
        return content_key([[package.name, package.version, package.sha256] for package in self.packages])


def lock_path(name: str) -> Path:
    """Where the lock of a base is."""
    return data_file("containers", f"{name}.lock")


def read_base_lock(name: str, definition: BaseDefinition) -> BaseLock:
    """The lock of a base. Raises :class:`InputError` when there is none, or it is not for this definition."""
    lock = load_base_lock(lock_path(name))
    if lock.definition != definition.resolved_from:
        gone = sorted(set(definition.packages) - {package.name for package in lock.packages})
        more = f" ({', '.join(gone)} not in it)" if gone else ""
        raise InputError(
            f"{lock_path(name)}: the lock is stale: {name}.toml asks for something else now{more}",
            fix=f"run `{REFRESH}` and look at the difference it shows, or take the change of {name}.toml back",
        )
    return lock


def load_base_lock(path: Path) -> BaseLock:
    """A lock file by itself, whatever definition it is for. Raises :class:`InputError` for a damaged one."""
    if not path.is_file():
        raise InputError(f"{path}: no such file: nothing says which packages the base has", fix=f"run `{REFRESH}`")
    lock = load_toml(path, BaseLock)
    again = f"restore it from the repository, or run `{REFRESH}`"
    if lock.schema != SCHEMA:
        raise InputError(f"{path}: schema {lock.schema} is not known", fix=f"this version of orbit reads {SCHEMA}")
    if lock.architecture != ARCHITECTURE or not lock.packages or not lock.archives:
        raise InputError(f"{path}: not a lock of {ARCHITECTURE} packages", fix=again)
    suites = {release.suite for release in lock.archives}
    for package in lock.packages:
        if not (
            NAME.fullmatch(package.name)
            and SHA256.fullmatch(package.sha256)
            and POOL.fullmatch(package.file)
            and package.size > 0
            and package.archive in suites
            and package.architecture in (ARCHITECTURE, "all")
        ):
            raise InputError(f"{path}: package {package.name!r} is not whole", fix=again)
    for what, values in (
        ("package", [package.name for package in lock.packages]),
        ("file name", [package.deb for package in lock.packages]),
    ):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise InputError(f"{path}: {what} {', '.join(twice)} stands there twice", fix=again)
    return lock


def write_base_lock(path: Path, lock: BaseLock) -> None:
    """Write a lock, whole or not at all."""
    write_atomic(path, render_lock(lock).encode())


def render_lock(lock: BaseLock) -> str:
    """The text of a lock: equal locks give equal text, a changed package changes its own lines."""
    lines = [
        HEAD,
        f"schema = {lock.schema}",
        f"definition = {_value(lock.definition)}",
        f"architecture = {_value(lock.architecture)}",
    ]
    for release in lock.archives:
        lines += ["", "[[archives]]", *_table(release)]
    for package in sorted(lock.packages, key=lambda package: package.name):
        lines += ["", "[[packages]]", *_table(package)]
    return "\n".join(lines) + "\n"


def _table(record: Record) -> Iterable[str]:
    return (f"{name} = {_value(getattr(record, name))}" for name in record.__struct_fields__)


def _value(value: str | int | bool) -> str:
    # a TOML basic string is JSON's, with DEL escaped, too; no field has one
    return json.dumps(value, ensure_ascii=True)


class Change(Record, frozen=True, kw_only=True):
    """One package that differs between two locks."""

    name: str
    kind: Literal["added", "removed", "upgraded", "downgraded", "rebuilt"]
    """``rebuilt``: another file with the same version, which no archive should ever serve."""
    before: str = ""
    """Version; empty when added."""
    after: str = ""
    security: bool
    """Whether the new version was published as a security update. One that came with a point release says false."""
    size: int
    """Bytes of the package more than before, negative for less."""


class LockDiff(Record, frozen=True, kw_only=True):
    """What a refresh changes."""

    changes: tuple[Change, ...]
    size_before: int
    """Bytes of all packages; 0 when there was no lock."""
    size_after: int
    dates: tuple[str, ...]
    """Changed suites, ``bookworm 12.14 2026-09-05T... -> 12.15 2026-11-14T...``."""

    @property
    def security(self) -> int:
        """How many security updates."""
        return sum(change.security for change in self.changes)


def diff_locks(before: BaseLock | None, after: BaseLock) -> LockDiff:
    """What changes from ``before`` (None: there is no lock yet) to ``after``."""
    old = {package.name: package for package in before.packages} if before else {}
    new = {package.name: package for package in after.packages}
    changes = [_change(old.get(name), new.get(name)) for name in sorted({*old, *new})]
    suites = {release.suite: release for release in before.archives} if before else {}
    dates = [
        f"{release.suite} {f'{_moment(known)} -> ' if known else ''}{_moment(release)}"
        for release in after.archives
        if (known := suites.get(release.suite)) != release
    ]
    return LockDiff(
        changes=tuple(change for change in changes if change),
        size_before=before.size if before else 0,
        size_after=after.size,
        dates=tuple(dates),
    )


def _moment(release: Release) -> str:
    return f"{release.version} {release.date}".strip()


def _change(old: LockedPackage | None, new: LockedPackage | None) -> Change | None:
    if old is None and new is not None:
        return Change(name=new.name, kind="added", after=new.version, security=new.security, size=new.size)
    if new is None and old is not None:
        return Change(name=old.name, kind="removed", before=old.version, security=False, size=-old.size)
    assert old is not None
    assert new is not None
    if old.sha256 == new.sha256:
        return None
    kind: Literal["upgraded", "downgraded", "rebuilt"] = "rebuilt"
    if old.version != new.version:
        kind = "upgraded" if version_key(old.version) < version_key(new.version) else "downgraded"
    return Change(
        name=new.name,
        kind=kind,
        before=old.version,
        after=new.version,
        security=new.security and kind == "upgraded",
        size=new.size - old.size,
    )
