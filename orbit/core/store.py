"""The store: results by the hash of their inputs. A result is either whole or absent.

Layout under the root (``$ORBIT_CACHE``, by default ``~/.cache/orbit``)::

    entries/<kind>/<key>/          the outputs of one piece of work
    entries/<kind>/<key>/.orbit.json   the entry's own record, written last; its time is when it was last used
    tmp/                           work in progress, emptied by the next run that holds the lock
    lock                           one writer at a time

Work is done in ``tmp`` on the same file system and renamed into place, so a killed process leaves nothing half-valid.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from orbit.core.files import exclusive, remove_tree, sha256_file, sync_folder
from orbit.core.paths import folder_named
from orbit.core.records import Record, canonical, content_key, dump_json, load_json
from orbit.core.shared import SEEN_NAME, Shared, shared_root
from orbit.errors import InputError

RECORD_NAME = ".orbit.json"
SHARED_KINDS = ("wheel",)
"""Small, flat, expensive to make, and independent of the machine but for what their inputs name."""
_COUNT = itertools.count()
_BUSY: dict[Path, threading.Lock] = {}
"""A lock per entry that a thread of this process looked for: threads that need the same thing make it once."""
_BUSY_LOCK = threading.Lock()


class EntryRecord(Record, frozen=True, kw_only=True):
    """What an entry says of itself."""

    kind: str
    key: str
    inputs: dict[str, Any]
    """Everything the key was made of."""
    outputs: dict[str, Any]
    """What the work reported (digests, counts)."""
    files: dict[str, str]
    """sha256 of the small top-level files of the entry, checked at every reuse."""
    seconds: float
    """How long the work took when it was really done."""


class Entry(Record, frozen=True, kw_only=True):
    """One result in the store."""

    path: Path
    record: EntryRecord
    reused: bool
    """True when nothing was done because the result was already there."""


def cache_root() -> Path:
    """``$ORBIT_CACHE``, else ``$XDG_CACHE_HOME/orbit``, else ``~/.cache/orbit``.

    Raises :class:`InputError` when ``$ORBIT_CACHE`` is not a folder and cannot become one.
    """
    if value := os.environ.get("ORBIT_CACHE"):
        return folder_named("ORBIT_CACHE", value)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "orbit"


class Store:
    """Content-addressed results of stages.

    With ``shared``, results of the kinds in :data:`SHARED_KINDS` are looked for there before they are made and put
    there afterwards.
    """

    def __init__(self, root: Path, shared: Shared | None = None) -> None:
        self.root = root
        self.shared = shared
        self.notes: list[str] = []
        """What went wrong with the shared results; never a reason to fail."""

    def entry_path(self, kind: str, key: str) -> Path:
        """Where the result of ``kind`` with this key lives or would live."""
        return self.root / "entries" / kind / key

    def find(self, kind: str, inputs: dict[str, Any]) -> Entry | None:
        """The finished result for these inputs. A damaged entry is removed and counts as absent."""
        path = self.entry_path(kind, content_key(inputs))
        if not path.is_dir():
            return None
        record = _intact(path)
        if record is None:
            self.discard(path)
            return None
        with contextlib.suppress(OSError):  # a store that others own can be used, too
            os.utime(path / RECORD_NAME)
        return Entry(path=path, record=record, reused=True)

    def entries(self, kind: str) -> Iterator[Entry]:
        """Every finished result of ``kind``, the one used last first; damaged ones are passed over, none is touched."""
        found: list[tuple[float, str]] = []
        for path in (self.root / "entries" / kind).glob("*"):
            with contextlib.suppress(OSError):
                found.append(((path / RECORD_NAME).stat().st_mtime, path.name))
        for _, name in sorted(found, reverse=True):
            path = self.entry_path(kind, name)
            if (record := _intact(path)) is not None:
                yield Entry(path=path, record=record, reused=True)

    def obtain(self, kind: str, inputs: dict[str, Any], work: Callable[[Path], dict[str, Any]]) -> Entry:
        """The result for ``inputs``: found, or made by ``work(folder)``, which returns its outputs.

        ``work`` gets an empty folder; whatever it leaves there is the entry. If it raises, nothing is kept. Threads
        that ask for the same result wait for the first of them; ``work`` must not ask for its own result.
        """
        key = content_key(inputs)
        with _BUSY_LOCK:
            busy = _BUSY.setdefault(self.entry_path(kind, key), threading.Lock())
        with busy:
            return self.find(kind, inputs) or self._borrow(kind, inputs) or self._make(kind, key, inputs, work)

    def _make(self, kind: str, key: str, inputs: dict[str, Any], work: Callable[[Path], dict[str, Any]]) -> Entry:
        folder = self.scratch(f"{kind}-{key[:12]}")
        began = time.monotonic()
        try:
            outputs = work(folder)
            files = {p.name: sha256_file(p) for p in sorted(folder.iterdir()) if p.is_file() and not p.is_symlink()}
            record = EntryRecord(
                kind=kind,
                key=key,
                inputs=msgspec.json.decode(canonical(inputs)),  # as whoever reads the record will have it
                outputs=outputs,
                files=files,
                seconds=round(time.monotonic() - began, 3),
            )
            dump_json(folder / RECORD_NAME, record)
            final = self._settle(folder, kind, key)
        except BaseException:
            remove_tree(folder)
            raise
        if self.shared and kind in SHARED_KINDS:
            problem = self.shared.publish(kind, key, final, self.root / "tmp")
            if problem:
                self.notes.append(f"{kind} {key[:12]}: {problem}")
        return Entry(path=final, record=record, reused=False)

    def _settle(self, folder: Path, kind: str, key: str) -> Path:
        final = self.entry_path(kind, key)
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(folder, final)
        except OSError as error:
            # another process finished the same work first: its result is as good as ours
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            remove_tree(folder)
        sync_folder(final.parent)
        return final

    def _borrow(self, kind: str, inputs: dict[str, Any]) -> Entry | None:
        """The shared result, copied here; None when there is none or it is not right."""
        if self.shared is None or kind not in SHARED_KINDS:
            return None
        key = content_key(inputs)
        folder = self.scratch(f"{kind}-{key[:12]}")
        problem = self.shared.fetch(kind, key, folder)
        record = _intact(folder) if not problem else None
        if record is None or (record.kind, content_key(record.inputs)) != (kind, key):
            remove_tree(folder)
            if problem != "absent":
                self.notes.append(f"{kind} {key[:12]}: {problem or 'is not what its name says'}")
            return None
        return Entry(path=self._settle(folder, kind, key), record=record, reused=True)

    def scratch(self, name: str) -> Path:
        """A fresh empty folder on the store's file system; the next run removes it if this one is killed."""
        folder = self.root / "tmp" / f"{name}.{os.getpid()}.{next(_COUNT)}"
        remove_tree(folder)
        folder.mkdir(parents=True)
        return folder

    def discard(self, path: Path) -> None:
        """Take an entry out of sight at once, then delete it."""
        doomed = self.root / "tmp" / f"discard.{path.name[:12]}.{os.getpid()}.{next(_COUNT)}"
        doomed.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # somebody else saw the damage, too
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)  # moving a folder to another parent needs write permission on the folder itself
            os.rename(path, doomed)
        remove_tree(doomed)

    def writer(self, purpose: str) -> Any:
        """Context manager: be the only writer of this store, or raise :class:`RefusedError`."""
        return exclusive(self.root / "lock", purpose)

    def sweep(self) -> None:
        """Remove what killed runs left in ``tmp``; work of a process that still runs stays. Call only as the writer.

        A program of a killed run may live a moment longer (:mod:`orbit.core.guard` ends it): each leftover is renamed
        first, so that nothing more is written under the old name while it is deleted.
        """
        tmp = self.root / "tmp"
        if not tmp.is_dir():
            return
        for leftover in tmp.iterdir():
            if not _maker_runs(leftover.name):
                doomed = tmp / f"swept.{os.getpid()}.{next(_COUNT)}"
                os.rename(leftover, doomed)
                remove_tree(doomed)


def open_store() -> Store:
    """The store that the variables name: ``$ORBIT_CACHE``, and ``$ORBIT_SHARED`` behind it."""
    shared = shared_root()
    return Store(cache_root(), Shared(shared) if shared else None)


def _intact(path: Path) -> EntryRecord | None:
    """The record of an entry whose top-level files are all as it says.

    A file that was hashed before and has not been touched since (inode, size, times) is not hashed again: a wheel can
    have a gigabyte, and who installs it hashes it anyway.
    """
    try:
        record = load_json(path / RECORD_NAME, EntryRecord)
        seen = _seen(path)
        now = {name: _stamp(path / name) for name in record.files}
        fresh = [name for name in record.files if seen.get(name) != now[name]]
        if any(sha256_file(path / name) != record.files[name] for name in fresh):
            return None
    except (InputError, OSError):
        return None
    if fresh:
        with contextlib.suppress(OSError):
            dump_json(path / SEEN_NAME, now)
    return record


def _seen(path: Path) -> dict[str, list[int]]:
    try:
        return load_json(path / SEEN_NAME, dict[str, list[int]])
    except InputError:
        return {}


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _maker_runs(name: str) -> bool:
    """Whether the process whose number :meth:`Store.scratch` or :meth:`Store.discard` put into ``name`` still runs."""
    parts = name.split(".")
    maker = parts[-2] if len(parts) > 2 else ""
    return maker.isdigit() and int(maker) != os.getpid() and os.path.exists(f"/proc/{maker}")
