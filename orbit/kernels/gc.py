"""What the store keeps for kernels, and what of it can go.

Kept always: what a build of any profile of this checkout would use right now. Of the rest goes what nobody used for a
while, and then, when there is a limit, what was used longest ago. A result that is removed is made or fetched again
when it is needed: nothing is lost but time.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from orbit.core.files import remove_tree
from orbit.core.records import Record
from orbit.core.store import RECORD_NAME, Store

ENTRY_KINDS = ("wheel", "verified", "sdist", "locked-wheel", "git", "build-env", "tool")
"""Kinds of store entries that belong to kernels."""
UNITS = "units"
"""Folder of the unit cache: one file per step or object."""
LOOSE = (UNITS, "downloads", "logs")
"""Folders whose files are items of their own."""
DAY_S = 86400.0


class Item(Record, frozen=True, kw_only=True):
    """One thing that can be removed on its own."""

    kind: str
    name: str
    path: str
    size: int
    """Bytes on disk."""
    used: float
    """When it was last used, seconds since the epoch."""
    pinned: bool
    """A build of this checkout would use it now."""


class Sweep(Record, frozen=True, kw_only=True):
    """What goes and what stays."""

    remove: tuple[Item, ...]
    keep: tuple[Item, ...]

    def freed(self) -> int:
        """Bytes."""
        return sum(item.size for item in self.remove)


def inventory(store: Store, pinned: Collection[tuple[str, str]]) -> tuple[Item, ...]:
    """Everything kernels have in the store; ``pinned`` are the (kind, key) pairs that are needed now."""
    found = []
    for kind in ENTRY_KINDS:
        for path in _children(store.root / "entries" / kind):
            record = path / RECORD_NAME
            used = record.stat().st_mtime if record.exists() else 0.0
            size = sum(status.st_size for status in _files(path))
            needed = (kind, path.name) in pinned
            found.append(Item(kind=kind, name=path.name, path=str(path), size=size, used=used, pinned=needed))
    for folder in LOOSE:
        root = store.root / folder
        for path in sorted(root.rglob("*")) if root.is_dir() else ():
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                name = str(path.relative_to(root))
                used, size = status.st_mtime, status.st_size
                found.append(Item(kind=folder, name=name, path=str(path), size=size, used=used, pinned=False))
    return tuple(found)


def choose(items: Iterable[Item], *, now: float, keep_days: float, max_bytes: int | None) -> Sweep:
    """Pure: which items go. ``max_bytes`` limits what is left, as far as what is pinned allows."""
    remove: list[Item] = []
    keep: list[Item] = []
    for item in sorted(items, key=lambda item: (-item.used, item.kind, item.name)):
        old = now - item.used > keep_days * DAY_S
        (remove if old and not item.pinned else keep).append(item)
    if max_bytes is not None:
        total = sum(item.size for item in keep)
        for item in reversed([item for item in keep if not item.pinned]):
            if total <= max_bytes:
                break
            total -= item.size
            keep.remove(item)
            remove.append(item)
    return Sweep(remove=tuple(remove), keep=tuple(keep))


def sweep(store: Store, plan: Sweep) -> None:
    """Remove what ``plan`` says. Call only as the store's writer."""
    for item in plan.remove:
        path = Path(item.path)
        if path.is_dir():
            store.discard(path)
        else:
            path.unlink(missing_ok=True)
    units = store.root / UNITS
    for folder in sorted(units.rglob("*"), reverse=True) if units.is_dir() else ():
        if folder.is_dir() and not any(folder.iterdir()):
            remove_tree(folder)


def collect(
    store: Store, pinned: Collection[tuple[str, str]], *, keep_days: float, max_bytes: int | None, dry_run: bool
) -> Sweep:
    """Take stock, choose, and unless ``dry_run`` remove."""
    plan = choose(inventory(store, pinned), now=time.time(), keep_days=keep_days, max_bytes=max_bytes)
    if not dry_run:
        sweep(store, plan)
    return plan


def _children(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _files(folder: Path) -> Iterator[os.stat_result]:
    for path in folder.rglob("*"):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            yield status
