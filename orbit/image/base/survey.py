"""Whether a lock can be relied on today: is it fresh, and can every file of it still be had?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from orbit.core.amounts import format_bytes
from orbit.core.console import Progress
from orbit.core.files import sha256_file
from orbit.core.findings import Skipped
from orbit.core.records import Record
from orbit.core.store import Store
from orbit.errors import ExitCode, MissingError
from orbit.image.base.definition import BaseDefinition
from orbit.image.base.fetch import stored
from orbit.image.base.lock import BaseLock, LockDiff, LockedPackage, diff_locks
from orbit.image.base.places import Folder
from orbit.image.base.refresh import Today, resolve
from orbit.kernels.sources import source_folders

SCHEMA = 1


class FileState(Record, frozen=True, kw_only=True):
    """Where one package is."""

    name: str
    version: str
    file: str
    """Path in the archive."""
    sha256: str
    size: int
    where: Literal["store", "sources", "archive", "nowhere", "unknown"]
    """``sources``: a folder of ``ORBIT_SOURCES``. ``archive``: listed there today. ``unknown``: nobody was asked."""
    problem: str = ""
    """Why something that looks right cannot be used."""


class BaseCheck(Record, frozen=True, kw_only=True):
    """What was found out about a lock that fits its definition."""

    schema: int = SCHEMA
    base: str
    files: tuple[FileState, ...]
    pending: LockDiff | None
    """What a refresh would change; None when the archive was not read."""
    skipped: tuple[Skipped, ...]

    @property
    def nowhere(self) -> tuple[FileState, ...]:
        """Files nobody has."""
        return tuple(file for file in self.files if file.where == "nowhere")

    @property
    def exit_code(self) -> ExitCode:
        """Findings: a security update waits, or a file is gone. Missing: it could not be found out."""
        if self.nowhere or (self.pending and self.pending.security):
            return ExitCode.FINDINGS
        unknown = any(file.where == "unknown" for file in self.files)
        asked = any(skipped.what == "archive" for skipped in self.skipped)
        return ExitCode.MISSING if asked or unknown else ExitCode.OK


def check_lock(
    name: str,
    definition: BaseDefinition,
    lock: BaseLock,
    store: Store,
    progress: Progress,
    *,
    offline: bool = False,
) -> BaseCheck:
    """Look for every file and, unless ``offline``, at what the archive has today. Nothing is fetched or changed.

    An archive that cannot be reached is a value in the result; one with a wrong signature is :class:`InputError`.
    """
    today: Today | None = None
    skipped: list[Skipped] = []
    if offline:
        skipped.append(Skipped(what="freshness", reason="--offline: the archive was not asked"))
    else:
        try:
            today = resolve(definition, store, progress)
        except MissingError as error:
            skipped.append(Skipped(what="archive", reason=str(error)))
    folders = [Folder(folder) for folder in source_folders()]
    return BaseCheck(
        base=name,
        files=tuple(_state(package, store, folders, today) for package in lock.packages),
        pending=diff_locks(lock, today.lock) if today else None,
        skipped=tuple(skipped),
    )


def _state(package: LockedPackage, store: Store, folders: Sequence[Folder], today: Today | None) -> FileState:
    where: Literal["store", "sources", "archive", "nowhere", "unknown"]
    problem = ""
    if stored(package, store):
        where = "store"
    else:
        where = "unknown" if today is None else "archive" if package.sha256 in today.listed else "nowhere"
        for folder in folders:
            own = folder.find(package)
            if own is None:
                continue
            if sha256_file(own) == package.sha256:
                where = "sources"
                break
            problem = f"{own}: other bytes than the lock says"
    return FileState(
        name=package.name,
        version=package.version,
        file=package.file,
        sha256=package.sha256,
        size=package.size,
        where=where,
        problem=problem,
    )


def render_check(check: BaseCheck) -> str:
    """The result for people."""
    counts: dict[str, int] = {}
    for file in check.files:
        counts[file.where] = counts.get(file.where, 0) + 1
    lines = [f"{check.base}: {len(check.files)} packages, the lock fits the definition"]
    lines.append("files: " + ", ".join(f"{count} {where}" for where, count in sorted(counts.items())))
    lines += [f"  {file.file}: no longer in the archive, and nowhere at hand" for file in check.nowhere]
    lines += [f"  {file.problem}" for file in check.files if file.problem]
    if check.pending is not None:
        lines += render_diff(check.pending) or ["fresh: the archive has nothing newer"]
    lines += [f"not checked: {skipped.what}: {skipped.reason}" for skipped in check.skipped]
    if check.exit_code is ExitCode.FINDINGS:
        lines.append("fix: orbit image base refresh")
    return "\n".join(lines)


def render_diff(diff: LockDiff) -> list[str]:
    """What a refresh changes, a line for each package; empty when nothing does."""
    if not diff.changes:
        return []
    width = max(len(change.name) for change in diff.changes)
    lines = []
    for change in diff.changes:
        versions = " -> ".join(version for version in (change.before, change.after) if version)
        mark = "  security" if change.security else ""
        lines.append(f"{change.kind:<10} {change.name:<{width}}  {versions}  {change.size:+,} bytes{mark}")
    kinds: dict[str, int] = {}
    for change in diff.changes:
        kinds[change.kind] = kinds.get(change.kind, 0) + 1
    total = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    sizes = f"{format_bytes(diff.size_before)} -> {format_bytes(diff.size_after)}"
    security = f"{diff.security} published as security updates"
    return [*lines, *diff.dates, f"{total}; {security}; {sizes}"]
