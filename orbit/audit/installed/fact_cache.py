"""Remember digests of files that have not changed since they were last hashed.

A file counts as unchanged when device, inode, size, modification time and change time (nanoseconds) are all what they
were; the change time cannot be set by a program, so an edit that restores the other four is still seen. Files that
changed less than :data:`SETTLE_NS` before the audit began are not remembered: they might change again within one tick.

The file starts with the sha256 of the rest. A cache that cannot be read, was cut short or has one wrong bit is an empty
one, and the audit writes it anew: a damaged digest must never become a finding about a sound file. The cache only saves
time; ``orbit audit --hash`` does without it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from orbit.audit.facts import Layout, Tree, printable
from orbit.core.files import write_atomic

FORMAT = 2
CHECKSUM_BYTES = 32
SETTLE_NS = 2_000_000_000


class Known(msgspec.Struct, frozen=True, array_like=True):
    """What is remembered of one file."""

    size: int
    stamp: tuple[int, int, int, int]
    digest: str


class Content(msgspec.Struct, frozen=True):
    """One cache file: the digests of one environment by path relative to its prefix."""

    format: int
    prefix: str
    known: dict[str, Known]


class FactCache:
    """The remembered digests of one environment, in ``folder``."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.prefix = printable(str(layout.prefix))
        self.path = folder / f"{hashlib.sha256(self.prefix.encode()).hexdigest()[:32]}.digests"
        self._began_ns = time.time_ns()
        self._known = self._load()

    def __bool__(self) -> bool:
        return bool(self._known)

    def lookup(self, tree: Tree) -> dict[str, str]:
        """Digests by path of the files that are as they were."""
        found: dict[str, str] = {}
        entries = tree.entries
        for path, known in self._known.items():
            fact = entries.get(path)
            if fact is not None and fact.stamp == known.stamp and fact.size == known.size and fact.is_file:
                found[path] = known.digest
        return found

    def save(self, tree: Tree, digests: Mapping[str, str]) -> None:
        """Remember ``digests``. Raises OSError when the folder cannot be written."""
        settled = self._began_ns - SETTLE_NS
        known: dict[str, Known] = {}
        for path, digest in digests.items():
            fact = tree.entries.get(path)
            if (
                fact is not None
                and fact.is_file
                and path == printable(path)
                and digest[0] != "!"
                and max(fact.stamp[2:]) < settled
            ):
                known[path] = Known(fact.size, fact.stamp, digest)
        write_checked(self.path, msgspec.msgpack.encode(Content(FORMAT, self.prefix, known)))

    def _load(self) -> dict[str, Known]:
        data = read_checked(self.path)
        if data is None:
            return {}
        try:
            content = msgspec.msgpack.decode(data, type=Content)
        except msgspec.DecodeError:
            return {}
        return content.known if (content.format, content.prefix) == (FORMAT, self.prefix) else {}


def read_checked(path: Path) -> memoryview | None:
    """What :func:`write_checked` wrote; None when it is not there or not as it was written."""
    try:
        data = memoryview(path.read_bytes())
    except OSError:
        return None
    whole = hashlib.sha256(data[CHECKSUM_BYTES:]).digest() == bytes(data[:CHECKSUM_BYTES])
    return data[CHECKSUM_BYTES:] if whole else None


def write_checked(path: Path, content: bytes) -> None:
    """Write ``content`` behind its own sha256. Raises OSError when the folder cannot be written."""
    write_atomic(path, hashlib.sha256(content).digest() + content)
