"""Remember what was read of ELF files while none of them has changed.

One file holds the facts of all ELF files of an environment, with the stamps (see
:mod:`orbit.audit.installed.fact_cache`) of all files that can be one and a hash of the readers' own source and data:
when any of these differs, everything is read anew (about a second). Like the digests, it carries its own checksum,
only saves time, and ``orbit audit --hash`` does without it.
"""

from __future__ import annotations

import functools
import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from orbit.audit import facts
from orbit.audit.binary import bare, dynamic, elf, fatbin
from orbit.audit.binary.dynamic import Export
from orbit.audit.facts import Layout, SharedObject, Tree, printable
from orbit.audit.files import objects, releases
from orbit.audit.installed.fact_cache import SETTLE_NS, read_checked, write_checked
from orbit.audit.known import jit, knowledge
from orbit.core.paths import data_file

READERS = (bare, dynamic, elf, facts, fatbin, jit, knowledge, objects, releases)
DATA = ("jit.toml", "libraries.toml", "symbols.toml")


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """Everything that is read of the ELF files of an environment."""

    objects: tuple[SharedObject, ...]
    damaged: dict[str, str]
    """Reason by path of those that could not be read."""
    exports: dict[str, frozenset[Export]]


class Content(msgspec.Struct, frozen=True, array_like=True):
    """One cache file."""

    key: bytes
    facts: ObjectFacts


class ObjectCache:
    """The remembered ELF facts of one environment, in ``folder``."""

    def __init__(self, folder: Path, layout: Layout, tree: Tree) -> None:
        prefix = printable(str(layout.prefix))
        self.path = folder / f"{hashlib.sha256(prefix.encode()).hexdigest()[:32]}.objects"
        state = hashlib.sha256(f"{readers_hash()}\0{prefix}\0".encode())
        newest = 0
        for path in sorted(objects.elf_candidates(tree)):
            fact = tree.entries[path]
            newest = max(newest, *fact.stamp[2:])
            state.update(f"{path}\0{fact.size} {fact.mode} {fact.stamp}\n".encode("utf-8", "surrogateescape"))
        self.key = state.digest()
        self.settled = newest < time.time_ns() - SETTLE_NS

    def load(self) -> ObjectFacts | None:
        """The remembered facts; None when a file changed, or there are none."""
        data = read_checked(self.path)
        if data is None:
            return None
        try:
            content = msgspec.msgpack.decode(data, type=Content)
        except msgspec.DecodeError:
            return None
        return content.facts if content.key == self.key else None

    def save(self, found: ObjectFacts) -> None:
        """Remember ``found``, unless a file may still be changing. Raises OSError when the folder cannot be written."""
        if not self.settled:
            return
        try:
            data = msgspec.msgpack.encode(Content(self.key, found))
        except UnicodeEncodeError:  # a name that is not UTF-8: read again each time
            return
        write_checked(self.path, data)


@functools.cache
def readers_hash() -> str:
    """Of the source of everything that reads an ELF file: facts of other readers are not taken for theirs."""
    state = hashlib.sha256()
    for module in READERS:
        assert module.__file__ is not None
        state.update(Path(module.__file__).read_bytes())
    for name in DATA:
        state.update(data_file("kernels", "expectations", name).read_bytes())
    return state.hexdigest()
