"""The facts of one image layer, made from its tar stream in one pass, and their form on a wire or in a cache.

A layer is unpacked in mind only, into an empty root as engines with an overlay do it: later members replace earlier
ones, links of the layer itself are followed, folders nobody listed are made. What lies in lower layers is not seen here
(:mod:`orbit.audit.images.overlay` puts layers on each other).
"""

from __future__ import annotations

import stat
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import zstandard

from orbit.audit.binary.dynamic import Export
from orbit.audit.binary.elf import Buffer
from orbit.audit.binary.sparse import Range
from orbit.audit.facts import SharedObject
from orbit.audit.files.scan import Scanned, digest_of, is_plain, scan_member
from orbit.audit.images.tar_stream import Chunk, Member, TarError, TarStream
from orbit.errors import InputError

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
META = ".wh..wh."
"""Names that union file systems keep for themselves; only the opaque mark means something in a layer."""
MAX_LINKS = 40
MAX_REPLACED = 64
"""Folders of one layer that a later member replaces by something else. Honest layers have none."""
MAX_TEXT_BYTES = 256 << 20
IMPLIED = -1
"""The number of a folder that no member lists."""
MAX_EXPORT_BYTES = 1 << 28
NO_MARK = "the tar stream has no end mark: it may have been cut short"
FOREIGN_LINK = "a hard link to a file that is not in its layer: engines refuse it"

type WholeAt = Callable[[int, int], Buffer]
"""``whole(offset, size)``: a part of the tar stream for random access."""


class Entry(NamedTuple):
    """One path of a layer."""

    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    number: int
    """Of the member it comes from: hard links share it. :data:`IMPLIED` for a folder that no member lists."""
    target: str
    """Of a symbolic link."""


FOLDER = Entry(stat.S_IFDIR | 0o755, 0, 0, 0, 0, IMPLIED, "")


class LayerFacts(msgspec.Struct, frozen=True, array_like=True):
    """All facts of one layer. Columns of text are joined by NUL, as file names may be any bytes but that."""

    paths: bytes
    numbers: bytes
    """Six 64-bit numbers for each path: mode, uid, gid, size, mtime, member."""
    targets: bytes
    """Of the symbolic links, in the order of ``paths``."""
    whiteouts: bytes
    opaque: bytes
    """Folders that hide what lower layers have in them."""
    digest_members: bytes
    digests: bytes
    objects: dict[int, SharedObject]
    """ELF facts by member."""
    odd_objects: dict[int, Any]
    """The same for objects with names that are not UTF-8, every string of them spelled in Latin-1."""
    exports: dict[int, bytes]
    """Packed symbols by member; see :func:`unpack_exports`."""
    texts: dict[int, bytes]
    heads: dict[int, bytes]
    damaged: dict[int, bytes]
    problems: bytes
    """Path and reason in turn."""
    tar_bytes: int = 0
    files: int = 0

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Every path with what is there."""
        columns = array("q")
        columns.frombytes(self.numbers)
        targets = iter(split(self.targets))
        six = [columns[index::6] for index in range(6)]
        for path, mode, uid, gid, size, mtime, number in zip(split(self.paths), *six, strict=True):
            target = next(targets) if mode & 0o170000 == stat.S_IFLNK else ""
            yield path, Entry(mode, uid, gid, size, mtime, number, target)

    def all_digests(self) -> dict[int, str]:
        """sha256 in RECORD's spelling by member."""
        members = array("q")
        members.frombytes(self.digest_members)
        return dict(zip(members, split(self.digests), strict=True))

    def all_objects(self) -> dict[int, SharedObject]:
        """ELF facts by member; their path is the first of the member."""
        odd = {
            number: msgspec.convert(_respell(item, "latin-1", "utf-8"), SharedObject)
            for number, item in self.odd_objects.items()
        }
        return {**self.objects, **odd}

    def all_problems(self) -> list[tuple[str, str]]:
        """(path, reason) of what cannot be unpacked as it is."""
        parts = split(self.problems)
        return list(zip(parts[::2], parts[1::2], strict=True))


def join(texts: Iterable[str]) -> bytes:
    """Texts without NUL as one value; each ends with NUL."""
    return "".join([f"{text}\0" for text in texts]).encode("utf-8", "surrogateescape")


def split(data: bytes) -> list[str]:
    """The texts that :func:`join` joined."""
    return data.decode("utf-8", "surrogateescape").split("\0")[:-1]


def pack_exports(exports: Iterable[Export]) -> bytes:
    """Symbols as compressed text: names and versions in turn."""
    text = join(part for item in sorted(exports) for part in item)
    return zstandard.ZstdCompressor(level=1).compress(text)


def unpack_exports(data: bytes) -> frozenset[Export]:
    """The symbols that :func:`pack_exports` packed."""
    parts = split(zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_EXPORT_BYTES))
    return frozenset(map(Export, parts[::2], parts[1::2]))


class Unpacking:
    """A layer unpacked in mind, member after member."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.whiteouts: dict[str, None] = {}
        self.opaque: dict[str, None] = {}
        self.problems: list[tuple[str, str]] = []
        self._folders: dict[str, str | None] = {"": ""}
        self._replaced = 0

    def add(self, member: Member, number: int) -> str | None:
        """Take the next member. Gives the path of a regular file whose content counts."""
        folder, _, name = member.path.rpartition("/")
        if not name:
            if stat.S_ISDIR(member.mode):
                self.entries[""] = _entry(member, number)
            else:
                self._problem(member.path, "the root of the image is no folder")
            return None
        real = self._folders.get(folder) if folder in self._folders else self._folder(folder)
        if real is None:
            self._problem(member.path, "it lies below a path that is no folder, or in a circle of links")
            return None
        if name.startswith(WHITEOUT):
            self._whiteout(real, name)
            return None
        path = f"{real}/{name}" if real else name
        entry = _entry(member, number) if member.mode else self._linked(member)
        if entry is not None:
            self._put(path, entry)
        return path if entry is not None and member.mode and stat.S_ISREG(entry.mode) else None

    def _put(self, path: str, entry: Entry) -> None:
        old = self.entries.get(path)
        if old is not None:
            was, is_now = stat.S_ISDIR(old.mode), stat.S_ISDIR(entry.mode)
            if was and not is_now:
                self._remove_below(path)
            if not (was and is_now):
                self._folders = {"": ""}
        self.entries[path] = entry

    def _linked(self, member: Member) -> Entry | None:
        """What a hard link names: an earlier member of this layer."""
        folder, _, name = member.target.rpartition("/")
        real = self._folder(folder, make=False)
        entry = None if real is None else self.entries.get(f"{real}/{name}" if real else name)
        if entry is None or stat.S_ISDIR(entry.mode):
            self._problem(member.path, FOREIGN_LINK if entry is None else "a hard link to a folder")
            return None
        return entry

    def _whiteout(self, folder: str, name: str) -> None:
        if name == OPAQUE:
            self.opaque[folder] = None
        elif not name.startswith(META):
            hidden = name.removeprefix(WHITEOUT)
            if hidden in ("", ".", ".."):
                self._problem(f"{folder}/{name}", "a whiteout of nothing")
            else:
                self.whiteouts[f"{folder}/{hidden}" if folder else hidden] = None

    def _folder(self, path: str, *, make: bool = True) -> str | None:
        """Where the folder ``path`` really is in this layer; None when it cannot be one."""
        known = self._folders.get(path)
        if known is not None:
            return known
        done: list[str] = []
        rest = path.split("/")[::-1]
        links = 0
        while rest:
            part = rest.pop()
            if part == "..":
                del done[-1:]
                continue
            here = "/".join([*done, part])
            entry = self.entries.get(here)
            if entry is None:
                if not make:
                    return None
                self.entries[here] = FOLDER
            elif stat.S_ISLNK(entry.mode):
                links += 1
                if links > MAX_LINKS:
                    return None
                if entry.target.startswith("/"):
                    done.clear()
                rest.extend(piece for piece in entry.target.split("/")[::-1] if piece not in ("", "."))
                continue
            elif not stat.S_ISDIR(entry.mode):
                return None
            done.append(part)
        found = self._folders[path] = "/".join(done)
        return found

    def _remove_below(self, path: str) -> None:
        lead = f"{path}/"
        below = [name for name in self.entries if name.startswith(lead)]
        self._replaced += 1
        if self._replaced > MAX_REPLACED:
            raise TarError(f"{path}: folders are replaced by other things over and over")
        for name in below:
            del self.entries[name]

    def _problem(self, path: str, why: str) -> None:
        self.problems.append((path, why))


class Missing(dict[int, tuple[Range, ...]]):
    """Ranges by member that readers asked for and that were not kept."""


def read_layer(chunks: Iterable[Chunk], label: str, *, whole: WholeAt | None = None) -> tuple[LayerFacts, Missing]:
    """(facts of the layer whose tar stream is in ``chunks``, what a second reading must keep).

    Raises :class:`TarError` when the stream cannot be unpacked, and what ``chunks`` raises.
    """
    stream, unpacking = TarStream(chunks, label), Unpacking()
    scans: dict[int, Scanned] = {}
    digests: dict[int, str] = {}
    text_bytes = 0
    for number, member in enumerate(stream):
        path = unpacking.add(member, number)
        if path is None:
            continue
        piece = stream.whole()
        if piece is not None and is_plain(path, member.size, member.mode):
            digests[number] = digest_of(piece)
            continue
        view = whole(member.offset, member.size) if whole else None
        pieces = stream.content() if piece is None else (piece,)
        found = scans[number] = scan_member(path, member.size, member.mode, pieces, whole=view)
        digests[number] = found.digest
        text_bytes += len(found.text or b"")
        if text_bytes > MAX_TEXT_BYTES:
            raise TarError(f"{label}: more than {MAX_TEXT_BYTES} bytes of metadata")
    tar_bytes = stream.drain()
    problems = [*stream.problems, *unpacking.problems, *([] if stream.ended else [("", NO_MARK)])]
    missing = Missing({number: found.missing for number, found in scans.items() if found.missing})
    return _facts(unpacking, scans, digests, problems, tar_bytes), missing


def read_again(chunks: Iterable[Chunk], label: str, facts: LayerFacts, missing: Missing) -> tuple[LayerFacts, Missing]:
    """``facts`` completed by a further reading of the same stream, and what is still missing."""
    paths = {entry.number: path for path, entry in facts.entries() if entry.number in missing}
    stream = TarStream(chunks, label)
    scans: dict[int, Scanned] = {}
    for number, member in enumerate(stream):
        if number in missing and number in paths:
            scans[number] = scan_member(
                paths[number], member.size, member.mode, stream.content(), hashed=False, keep=missing[number]
            )
    stream.drain()
    objects, odd, exports, damaged = _columns(scans)
    more = msgspec.structs.replace(
        facts,
        objects=facts.objects | objects,
        odd_objects=facts.odd_objects | odd,
        exports=facts.exports | exports,
        damaged=facts.damaged | damaged,
    )
    return more, Missing({number: found.missing for number, found in scans.items() if found.missing})


def _entry(member: Member, number: int) -> Entry:
    target = member.target if stat.S_ISLNK(member.mode) else ""
    return Entry(member.mode, member.uid, member.gid, member.size, member.mtime, number, target)


def _facts(
    unpacking: Unpacking,
    scans: Mapping[int, Scanned],
    digests: Mapping[int, str],
    problems: Iterable[tuple[str, str]],
    tar_bytes: int,
) -> LayerFacts:
    entries = unpacking.entries
    live = {entry.number for entry in entries.values()}
    scans = {number: found for number, found in scans.items() if number in live}
    numbers = array("q", [value for entry in entries.values() for value in entry[:6]])
    digests = {number: digest for number, digest in digests.items() if number in live}
    objects, odd, exports, damaged = _columns(scans)
    return LayerFacts(
        paths=join(entries),
        numbers=numbers.tobytes(),
        targets=join(entry.target for entry in entries.values() if stat.S_ISLNK(entry.mode)),
        whiteouts=join(unpacking.whiteouts),
        opaque=join(unpacking.opaque),
        digest_members=array("q", digests).tobytes(),
        digests=join(digests.values()),
        objects=objects,
        odd_objects=odd,
        exports=exports,
        texts={number: found.text for number, found in scans.items() if found.text is not None},
        heads={number: found.head for number, found in scans.items() if found.head is not None},
        damaged=damaged,
        problems=join(part for problem in problems for part in problem),
        tar_bytes=tar_bytes,
        files=len(digests),
    )


def _columns(
    scans: Mapping[int, Scanned],
) -> tuple[dict[int, SharedObject], dict[int, Any], dict[int, bytes], dict[int, bytes]]:
    """(objects, objects with odd names, packed exports, damage) by member."""
    objects: dict[int, SharedObject] = {}
    odd: dict[int, Any] = {}
    for number, found in scans.items():
        if found.object is None:
            continue
        try:
            msgspec.msgpack.encode(found.object)
            objects[number] = found.object
        except UnicodeEncodeError:
            odd[number] = _respell(msgspec.to_builtins(found.object), "utf-8", "latin-1")
    exports = {number: pack_exports(found.exports) for number, found in scans.items() if found.exports is not None}
    damaged = {
        number: found.damaged.encode("utf-8", "surrogateescape") for number, found in scans.items() if found.damaged
    }
    return objects, odd, exports, damaged


def _respell(value: Any, source: str, target: str) -> Any:
    """``value`` with every string of it encoded as ``source`` and decoded as ``target``; any byte passes both ways."""
    if isinstance(value, str):
        return value.encode(source, "surrogateescape").decode(target, "surrogateescape")
    if isinstance(value, dict):
        return {_respell(key, source, target): _respell(item, source, target) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_respell(item, source, target) for item in value]
    return value


def encode(facts: LayerFacts) -> bytes:
    """The facts as bytes."""
    return msgspec.msgpack.encode(facts)


def decode(data: bytes | memoryview) -> LayerFacts:
    """The facts that :func:`encode` encoded. Raises :class:`InputError` for anything else."""
    try:
        return msgspec.msgpack.decode(data, type=LayerFacts)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"not the facts of a layer: {error}", fix="read the layer again") from None
