"""What a store holds, thing by thing: how large, when it was last used, what needs it, and who else has the same files.

Files that several names lead to (hard links: an environment and the slim one made of it, a layer and the layouts in
``dist/``) are counted once, for the first thing that has them; and what removing things would free is what no other
name leads to any more.

What an entry needs is read from the entries themselves: a digest that it mentions, of what it was made from or what it
is about, is the key or a digest of another one.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orbit.core.records import Record, canonical, load_json
from orbit.core.store import RECORD_NAME, EntryRecord, Store
from orbit.errors import InputError

LOOSE = ("downloads", "facts", "logs", "units")
"""Folders of a store whose files are things of their own."""
DIGEST = re.compile(rb"[0-9a-f]{64}")
NAMED = ("digest", "diff_id", "members", "sha256", "tree")
"""Inputs and outputs of an entry that are a digest of the entry itself."""
BLOCK_BYTES = 512
"""Of st_blocks (stat(2))."""


class Item(Record, frozen=True, kw_only=True):
    """One thing that can be removed on its own."""

    kind: str
    name: str
    path: str
    size: int
    """Bytes on disk, less those counted for another thing already."""
    used: float
    """When it was last used, seconds since the epoch."""
    pinned: bool = False
    """This checkout would use it now."""
    needs: tuple[str, ...] = ()
    """``kind/name`` of what it was made from or belongs to."""

    @property
    def id(self) -> str:
        """``kind/name``."""
        return f"{self.kind}/{self.name}"


@dataclass(slots=True)
class Content:
    """A file that more than one name leads to."""

    size: int
    names: int
    """All names, in the store or not."""
    holders: dict[str, int] = field(default_factory=dict)
    """Names by the id of the thing that has them."""


@dataclass(frozen=True, slots=True)
class Stock:
    """Everything in a store."""

    items: tuple[Item, ...]
    linked: Mapping[tuple[int, int], Content]
    """By device and inode."""
    alone: Mapping[str, int]
    """Bytes by id that go with the thing for certain."""

    def freed(self, gone: Collection[str]) -> int:
        """Bytes that are free when the things of these ids are gone."""
        size = sum(self.alone.get(name, 0) for name in gone)
        for content in self.linked.values():
            if sum(count for name, count in content.holders.items() if name in gone) == content.names:
                size += content.size
        return size

    def outside(self, ids: Collection[str]) -> int:
        """Bytes of these things that names outside the store lead to as well: layouts, environments copied out."""
        return sum(
            content.size
            for content in self.linked.values()
            if content.names > sum(content.holders.values()) and not content.holders.keys().isdisjoint(ids)
        )

    def of_layout(self, layout: Path) -> frozenset[str]:
        """Ids of the things whose files a layout has."""
        found: set[str] = set()
        for status in files(layout / "blobs"):
            if content := self.linked.get((status.st_dev, status.st_ino)):
                found.update(content.holders)
        return frozenset(found)


def files(folder: Path) -> Iterator[os.stat_result]:
    """Every regular file below ``folder``; what vanishes meanwhile is passed over."""
    left = [os.fspath(folder)]
    while left:
        try:
            found = list(os.scandir(left.pop()))
        except OSError:
            continue
        for entry in found:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield status
            elif stat.S_ISDIR(status.st_mode):
                left.append(entry.path)


class _Counting:
    """Counts files once."""

    def __init__(self) -> None:
        self.linked: dict[tuple[int, int], Content] = {}
        self.alone: dict[str, int] = defaultdict(int)

    def add(self, name: str, status: os.stat_result) -> int:
        """A file of a thing; the bytes it is counted for there."""
        size = status.st_blocks * BLOCK_BYTES
        if status.st_nlink == 1:
            self.alone[name] += size
            return size
        content = self.linked.setdefault((status.st_dev, status.st_ino), Content(size, status.st_nlink))
        first = not content.holders
        content.holders[name] = content.holders.get(name, 0) + 1
        return size if first else 0


def take_stock(
    store: Store,
    pinned: Collection[tuple[str, str]] = (),
    *,
    kinds: Collection[str] | None = None,
    loose: Collection[str] = LOOSE,
    shared: Path | None = None,
) -> Stock:
    """Everything in the store: entries of ``kinds`` (None: of all), files of ``loose`` folders, and those of the
    ``shared`` folder if one is given. ``pinned``: (kind, key) of what is needed now."""
    counting = _Counting()
    records = {path: _record(path) for path in _entries(store, kinds)}
    needs = _needs({f"{path.parent.name}/{path.name}": record for path, record in records.items()})
    found = []
    for path in records:
        kind, name = path.parent.name, path.name
        size = sum(counting.add(f"{kind}/{name}", status) for status in files(path))
        found.append(
            Item(
                kind=kind,
                name=name,
                path=str(path),
                size=size,
                used=_used(path / RECORD_NAME),
                pinned=(kind, name) in pinned,
                needs=needs[f"{kind}/{name}"],
            )
        )
    for folder in loose:
        found += _loose(store.root / folder, folder, counting)
    for kept in sorted(shared.iterdir()) if shared is not None and shared.is_dir() else ():
        if kept.is_dir():
            found += _loose(kept, f"shared/{kept.name}", counting, pinned)
    return Stock(tuple(found), counting.linked, dict(counting.alone))


def _loose(root: Path, kind: str, counting: _Counting, pinned: Collection[tuple[str, str]] = ()) -> Iterator[Item]:
    for path in sorted(root.rglob("*")) if root.is_dir() else ():
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISREG(status.st_mode):
            name = str(path.relative_to(root))
            needed = (kind.removeprefix("shared/"), path.name) in pinned
            size = counting.add(f"{kind}/{name}", status)
            yield Item(kind=kind, name=name, path=str(path), size=size, used=status.st_mtime, pinned=needed)


def _entries(store: Store, kinds: Collection[str] | None) -> Iterator[Path]:
    root = store.root / "entries"
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if folder.is_dir() and (kinds is None or folder.name in kinds):
            yield from sorted(path for path in folder.iterdir() if path.is_dir())


def _record(path: Path) -> EntryRecord | None:
    try:
        return load_json(path / RECORD_NAME, EntryRecord)
    except (InputError, OSError):
        return None  # damaged: whoever looks for it removes it


def _used(record: Path) -> float:
    try:
        return record.stat().st_mtime
    except OSError:
        return 0.0


def _needs(records: Mapping[str, EntryRecord | None]) -> dict[str, tuple[str, ...]]:
    """What each entry needs, by id."""
    owner: dict[str, set[str]] = defaultdict(set)
    own: dict[str, frozenset[str]] = {}
    for name, record in records.items():
        own[name] = frozenset(_digests_of(record)) if record is not None else frozenset()
        for digest in own[name]:
            owner[digest].add(name)
    found: dict[str, tuple[str, ...]] = {}
    for name, record in records.items():
        mentioned = DIGEST.findall(canonical([record.inputs, record.outputs])) if record is not None else []
        others = {each.decode() for each in mentioned} - own[name]
        found[name] = tuple(sorted({each for digest in others for each in owner.get(digest, ())} - {name}))
    return found


def _digests_of(record: EntryRecord) -> Iterator[str]:
    """The digests by which an entry is known."""
    yield record.key
    yield from record.files.values()
    for said in (record.inputs, record.outputs):
        for key in NAMED:
            if isinstance(value := said.get(key), str):
                yield value.removeprefix("sha256:")


def closure(items: Iterable[Item], wanted: Iterable[str]) -> frozenset[str]:
    """The ids ``wanted`` and of everything they need, in as many steps as it takes."""
    needs = {item.id: item.needs for item in items}
    found: set[str] = set()
    left = list(wanted)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += needs.get(name, ())
    return frozenset(found)
