"""Where the dynamic loader of a root file system looks without being told: ld.so.conf, ld.so.cache, default folders.

Pure functions over the bytes of these files. Sources: ld.so(8), ldconfig(8), and glibc's ``sysdeps/generic/dl-cache.h``
for the layout of the cache (``glibc-ld.so.cache1.1``, alone or behind the old ``ld.so-1.7.0`` part).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from orbit.errors import InputError

CONF = "etc/ld.so.conf"
CACHE = "etc/ld.so.cache"
PRELOAD = "etc/ld.so.preload"
DEFAULT_FOLDERS = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
"""What Debian's and Red Hat's loaders look through last; a folder that is not there costs nothing."""
HWCAPS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")
"""Folders below ``glibc-hwcaps`` that the hosts of these GPUs use, best first."""

MAGIC = b"glibc-ld.so.cache1.1"
OLD_MAGIC = b"ld.so-1.7.0"
OLD_HEADER_BYTES, OLD_ENTRY_BYTES = 16, 12
HEADER = struct.Struct("<20sIIB3xI12x")
ENTRY = struct.Struct("<iIIIQ")
EXTENSIONS = struct.Struct("<II")
EXTENSION = struct.Struct("<IIII")
EXTENSION_MAGIC = 0xEAA42174
TAG_HWCAPS = 1
HWCAP_EXTENSION = 1 << 62
ABI_FLAGS = {62: 0x0303, 183: 0x0A03}
"""Flags of a cache entry for 64-bit libraries, by ``e_machine``; entries for another ABI are passed over."""
MAX_ENTRIES = 200_000
MAX_TEXT = 4096
MAX_INCLUDES = 256
"""Patterns that all files together may include; further ones are passed over."""


class MalformedCache(InputError):
    """An ld.so.cache contradicts itself."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{CACHE}: {what}", fix="run ldconfig again when the image is built")


class CacheEntry(NamedTuple):
    """One library that ldconfig found."""

    soname: str
    path: str
    """Absolute."""
    hwcaps: str
    """Folder below ``glibc-hwcaps`` (``x86-64-v3``), or empty."""


@dataclass(frozen=True, slots=True)
class ConfiguredFolder:
    """One folder that ld.so.conf names."""

    folder: str
    """Absolute, as written."""
    file: str
    """The file that names it, relative to the root."""


def configured_folders(texts: Mapping[str, bytes], conf: str = CONF) -> tuple[ConfiguredFolder, ...]:
    """The folders of ``conf`` and of what it includes, in ldconfig's order: as written, included files sorted by name.

    Included files are those in ``texts`` (contents by path relative to the root). A folder named twice counts where it
    comes first.
    """
    found: dict[str, ConfiguredFolder] = {}
    for item in _folders(texts, conf, set(), set()):
        found.setdefault(item.folder, item)
    return tuple(found.values())


def _folders(texts: Mapping[str, bytes], conf: str, seen: set[str], patterns: set[str]) -> Iterator[ConfiguredFolder]:
    """``seen``: files that were read already. What they name counted there, so that circles end by themselves."""
    if conf in seen:
        return
    seen.add(conf)
    for line in texts.get(conf, b"").decode("utf-8", "surrogateescape").splitlines():
        words = line.partition("#")[0].split()
        if not words or words[0] == "hwcap":
            continue
        if words[0] == "include":
            for name in _included(texts, conf, words[1:], patterns):
                yield from _folders(texts, name, seen, patterns)
            continue
        for folder in re.split(r"[\s,:]+", line.partition("#")[0]):
            plain = folder.partition("=")[0]
            if plain.startswith("/"):
                yield ConfiguredFolder(plain.rstrip("/") or "/", conf)


def _included(texts: Mapping[str, bytes], conf: str, words: list[str], patterns: set[str]) -> Iterator[str]:
    """The files that an ``include`` in ``conf`` names, of patterns that were not asked for before."""
    for pattern in words:
        whole = pattern if pattern.startswith("/") else f"/{conf.rpartition('/')[0]}/{pattern}"
        if whole in patterns or len(patterns) >= MAX_INCLUDES:
            continue
        patterns.add(whole)
        for name in sorted(texts):
            if name.count("/") == whole.count("/") - 1 and fnmatchcase(f"/{name}", whole):
                yield name


def preloaded(texts: Mapping[str, bytes]) -> tuple[str, ...]:
    """What ld.so.preload names: libraries that every process loads first."""
    text = texts.get(PRELOAD, b"").decode("utf-8", "surrogateescape")
    return tuple(word for line in text.splitlines() for word in re.split(r"[\s:]+", line.partition("#")[0]) if word)


def read_cache(data: bytes, machine: int = 62) -> tuple[CacheEntry, ...]:
    """The entries of an ld.so.cache for ``machine``, in its order. Raises :class:`MalformedCache`.

    A cache of the oldest format alone has no entries that a present glibc would use.
    """
    start = _start(data)
    if start is None:
        return ()
    if len(data) < start + HEADER.size:
        raise MalformedCache(f"{len(data)} bytes, too short for its header")
    _magic, count, _strings, _endian, extensions = HEADER.unpack_from(data, start)
    table = start + HEADER.size
    if count > MAX_ENTRIES or table + count * ENTRY.size > len(data):
        raise MalformedCache(f"{count} entries do not fit into {len(data)} bytes")
    hwcaps = _hwcaps(data, start, extensions)
    wanted = ABI_FLAGS.get(machine)
    found: list[CacheEntry] = []
    spare = 4 * len(data)  # names may share an end, but their sum is not many times the file
    for flags, key, value, _version, hwcap in ENTRY.iter_unpack(data[table : table + count * ENTRY.size]):
        if flags != wanted:
            continue
        folder = ""
        if hwcap & HWCAP_EXTENSION:
            index = hwcap & 0xFFFFFFFF
            if index >= len(hwcaps):
                raise MalformedCache(f"an entry names hardware capability {index} of {len(hwcaps)}")
            folder = hwcaps[index]
        elif hwcap:
            continue  # capabilities as glibc before 2.37 had them: no folder of ours
        entry = CacheEntry(_text(data, start + key), _text(data, start + value), folder)
        spare -= len(entry.soname) + len(entry.path)
        if spare < 0:
            raise MalformedCache("the names in it are longer than the file")
        found.append(entry)
    return tuple(found)


def lookup_table(entries: tuple[CacheEntry, ...]) -> dict[str, str]:
    """The path that the loader takes of each soname: that of the best hardware capability, else the first."""
    rank = {name: position for position, name in enumerate((*HWCAPS, ""))}
    found: dict[str, tuple[int, str]] = {}
    for entry in entries:
        position = rank.get(entry.hwcaps)
        if position is not None and (entry.soname not in found or position < found[entry.soname][0]):
            found[entry.soname] = (position, entry.path)
    return {soname: path for soname, (_position, path) in found.items()}


def _start(data: bytes) -> int | None:
    """Where the present format begins; its offsets count from there."""
    if data.startswith(MAGIC):
        return 0
    if not data.startswith(OLD_MAGIC):
        raise MalformedCache("does not start with the magic of a loader cache")
    if len(data) < OLD_HEADER_BYTES:
        raise MalformedCache(f"{len(data)} bytes, too short for its header")
    count = int.from_bytes(data[12:16], "little")
    start = OLD_HEADER_BYTES + count * OLD_ENTRY_BYTES
    start += -start % 8
    return start if data[start : start + len(MAGIC)] == MAGIC else None


def _hwcaps(data: bytes, start: int, extensions: int) -> list[str]:
    """The names that entries refer to by number."""
    if extensions == 0:
        return []
    at = start + extensions
    if at + EXTENSIONS.size > len(data):
        raise MalformedCache(f"extensions at {extensions} lie outside the file")
    magic, count = EXTENSIONS.unpack_from(data, at)
    if magic != EXTENSION_MAGIC:
        raise MalformedCache(f"extensions start with {magic:#x}")
    for position in range(min(count, 64)):
        entry = at + EXTENSIONS.size + position * EXTENSION.size
        if entry + EXTENSION.size > len(data):
            raise MalformedCache(f"{count} extensions do not fit into the file")
        tag, _flags, offset, size = EXTENSION.unpack_from(data, entry)
        if tag == TAG_HWCAPS:
            where = start + offset
            if size % 4 or size > 4 * MAX_TEXT or where + size > len(data):
                raise MalformedCache(f"a list of {size} bytes at {offset} lies outside the file")
            return [_text(data, start + offset) for (offset,) in struct.iter_unpack("<I", data[where : where + size])]
    return []


def _text(data: bytes, at: int) -> str:
    end = data.find(b"\0", at, at + MAX_TEXT)
    if at >= len(data) or end < 0:
        raise MalformedCache(f"a name at {at} runs past the file")
    return data[at:end].decode("utf-8", "surrogateescape")
