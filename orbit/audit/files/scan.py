"""All facts of one file in one pass over its bytes: digest, ELF facts, exported symbols, text.

For files that are not on disk: members of image layers and of wheels. The bytes come in pieces and are never held
together, except for small files and for what :mod:`orbit.audit.files.keeper` keeps of a large library.

    found = scan_member("opt/orbit/lib/libx.so", size, mode, pieces)
    if found.missing:  # rare: a reader needs bytes that went by; read the member again
        found = scan_member("opt/orbit/lib/libx.so", size, mode, pieces_again, keep=found.missing)
"""

from __future__ import annotations

import binascii
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from orbit.audit.binary.dynamic import Export, read_exports
from orbit.audit.binary.elf import EM_CUDA, HEADER, Buffer, Elf, MalformedBinary, is_elf
from orbit.audit.binary.sparse import NotKept, Range, Sparse
from orbit.audit.facts import SharedObject
from orbit.audit.files.keeper import Keeper
from orbit.audit.files.objects import ELF_HEAD_BYTES, LIBRARY, object_of, other_elf
from orbit.audit.files.releases import wanted_patterns
from orbit.audit.files.texts import HEAD_BYTES, MAX_BYTES, METADATA, PACKAGES, is_head_wanted, is_wanted
from orbit.audit.known.jit import RELEASE_MARK, is_tool
from orbit.audit.known.knowledge import anchor, libraries

WHOLE_BYTES = 64 << 20
"""ELF files up to this are held whole while they are read."""
JOINED_BYTES = 16 << 20
"""And in one piece: quicker to read, but for a moment twice in memory."""
AGAIN_BYTES = 1 << 20
"""Asked for around a range that was missing, so that the next reader does not miss its neighbours."""
DENSE_BYTES = 100 << 20
"""Of a library whose code tells its release (nvJitLink) all is kept but device code, up to this."""
MAX_READINGS = 6
"""A file that still misses something after so many readings is damaged on purpose."""
METADATA_NAMES = frozenset({"METADATA", "WHEEL", "RECORD", "INSTALLER", "direct_url.json"})
EXTENSIONS = (".cpython-", ".abi3.")
"""In the name of a Python extension module, whose symbols nobody but the interpreter asks for."""

URL_SAFE = bytes.maketrans(b"+/", b"-_")

type Piece = bytes | memoryview


class Hash(Protocol):
    """What :mod:`hashlib` makes."""

    def update(self, data: Piece, /) -> None:
        """Take more bytes."""

    def digest(self) -> bytes:
        """Of all that was taken."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one pass over a file found."""

    digest: str = ""
    """sha256 in RECORD's spelling (urlsafe base64 without padding); empty when it was not asked for."""
    object: SharedObject | None = None
    """The ELF facts; None for what is no ELF file, and for a loose cubin."""
    exports: frozenset[Export] | None = None
    """Symbols that a library defines; None for other files and for Python extension modules."""
    text: bytes | None = None
    """The content, when it is one of the small files that rules or ``orbit.audit.installed.dists`` read."""
    head: bytes | None = None
    """The first bytes of a program (see ``orbit.audit.files.texts.is_head_wanted``)."""
    damaged: str = ""
    """Why a file that says it is an ELF file cannot be read as one, or why there were other bytes than promised."""
    missing: tuple[Range, ...] = ()
    """Not empty: only ``digest`` counts. Scan the file again with ``keep=missing``."""


def scan_member(
    path: str,
    size: int,
    mode: int,
    pieces: Iterable[Piece],
    *,
    hashed: bool = True,
    keep: tuple[Range, ...] = (),
    whole: Buffer | None = None,
) -> Scanned:
    """Read a regular file of ``size`` bytes that is called ``path`` and has the permission bits ``mode``.

    ``pieces`` are its bytes in order; no more than ``size`` are used, and fewer are damage. ``whole``: the same bytes
    for random access where they can be had (an uncompressed archive on disk), so that nothing needs to be kept.
    Exceptions raised by ``pieces`` pass through; nothing about the content of the file raises one.
    """
    state = hashlib.sha256() if hashed else None
    first, rest = _first_of(pieces)
    text = size <= MAX_BYTES and is_text(path)
    elf = not text and may_be_elf(path, size, mode) and is_elf(bytes(first[:6]))
    hold: _Hold | Keeper | None = None
    if text or (elf and whole is None):
        hold = _keeper(path, size, keep) if elf and size > WHOLE_BYTES else _Hold()
    damaged = _read(path, size, _all(first, rest), state, hold)
    digest = _spelled(state.digest()) if state is not None else ""
    if damaged:
        found = Scanned(digest, damaged=damaged)
    elif text:
        found = Scanned(digest, text=b"".join(hold.pieces) if isinstance(hold, _Hold) else b"")
    elif elf:
        found = read_facts(path, whole if whole is not None else _result(hold), digest, keep)
    else:
        found = _other(path, size, mode, first, digest)
    return replace(found, head=bytes(first[:HEAD_BYTES])) if is_head_wanted(path) else found


def is_plain(path: str, size: int, mode: int) -> bool:
    """Whether nothing but the digest of a file can be a fact; its bytes need no :func:`scan_member`."""
    return not (may_be_elf(path, size, mode) or is_text(path) or is_head_wanted(path))


def digest_of(data: Piece) -> str:
    """sha256 in RECORD's spelling (urlsafe base64 without padding)."""
    return _spelled(hashlib.sha256(data).digest())


def _spelled(digest: bytes) -> str:
    return binascii.b2a_base64(digest, newline=False).translate(URL_SAFE, b"=").decode()


def _other(path: str, size: int, mode: int, first: Piece, digest: str) -> Scanned:
    """A file that is neither a text that is read nor an ELF file that is."""
    if may_be_elf(path, size, mode) and (other := other_elf(path, bytes(first[:ELF_HEAD_BYTES]))) is not None:
        return Scanned(digest, other)
    if LIBRARY.search(path) and bytes(first[:4]) in (b"", bytes(4)):
        return Scanned(digest, damaged=f"{path}: empty, or zeros in place of an ELF header")
    return Scanned(digest)


def _keeper(path: str, size: int, keep: tuple[Range, ...]) -> Keeper:
    """What keeps a large ELF file: with the texts that tell the release of a library or tool of this name."""
    name = path[path.rfind("/") + 1 :]
    anchors = {anchor(pattern.pattern) for pattern in wanted_patterns(name)}
    if is_tool(path):
        anchors.add(RELEASE_MARK)
    family = libraries().family_of(name, "")
    by_code = family is not None and bool(family.functions) and not family.texts
    return Keeper(size, keep, anchors=anchors - {b""}, dense=by_code and size <= DENSE_BYTES)


class _Hold:
    """Takes the bytes of a small file and holds them all."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def feed(self, piece: Piece) -> None:
        """Take the next bytes."""
        self.pieces.append(bytes(piece))


def _result(hold: _Hold | Keeper | None) -> Buffer:
    if isinstance(hold, Keeper):
        return hold.finish()
    pieces = hold.pieces if hold else []
    if sum(map(len, pieces)) <= JOINED_BYTES:
        return b"".join(pieces)
    starts = itertools.accumulate(map(len, pieces), initial=0)
    return Sparse(sum(map(len, pieces)), list(zip(starts, pieces, strict=False)))


def _read(path: str, size: int, pieces: Iterator[Piece], state: Hash | None, hold: _Hold | Keeper | None) -> str:
    """Give ``size`` bytes of ``pieces`` to the hash and to what holds them; what is wrong with them, or empty."""
    left, damaged = size, ""
    for piece in pieces:
        used = piece if len(piece) <= left else piece[:left]
        left -= len(used)
        if state is not None:
            state.update(used)
        if hold is not None and not damaged:
            try:
                hold.feed(used)
            except MalformedBinary as error:
                damaged = f"{path}: {error.what}"
        if len(used) < len(piece):
            return f"{path}: more than the {size} bytes that were promised"
    return f"{path}: ends after {size - left} of {size} bytes" if left else damaged


def read_facts(path: str, data: Buffer, digest: str, keep: tuple[Range, ...] = ()) -> Scanned:
    """The ELF facts of ``data``; what was not kept of a stream (beyond ``keep``) is named in ``missing``."""
    try:
        elf = Elf(data, path)
        if elf.machine == EM_CUDA:
            return Scanned(digest)
        found = object_of(elf, path)
        exports = read_exports(elf) if found.dynamic and is_library(path, found.dynamic.soname) else None
    except MalformedBinary as error:
        return Scanned(digest, damaged=error.what)
    except NotKept as error:
        if len(keep) >= MAX_READINGS:
            return Scanned(digest, damaged=f"{path}: its tables are spread over the file: not read")
        start, stop = error.range
        more = AGAIN_BYTES << (2 * len(keep))
        # before it, too: names lie in the string table in another order than their symbols
        before = min(start, more // 2 if keep else 0, DENSE_BYTES // 2)
        return Scanned(digest, missing=(*keep, (start - before, min(max(stop, start + more), start + DENSE_BYTES))))
    return Scanned(digest, found, exports)


def may_be_elf(path: str, size: int, mode: int) -> bool:
    """Whether a regular file can be an ELF file: named like a library, or executable and not shorter than a header.

    The same choice as :func:`orbit.audit.files.objects.elf_candidates` makes on disk.
    """
    return ".so" in path[path.rfind("/") + 1 :] or (size >= HEADER.size and bool(mode & 0o111))


def is_text(path: str) -> bool:
    """Whether the content of the file is a fact of its own: a rule reads it, or it is metadata of a distribution.

    A file of a package cache counts as what it is called in site-packages: installed files can be hard links to it.
    """
    name = path[path.rfind("/") + 1 :]
    return (
        is_wanted(path)
        or is_wanted(f"lib/site-packages/{name}")
        or (name in METADATA_NAMES and METADATA.search(f"/{path}") is not None)
        or (path.startswith("var/lib/dpkg/") and PACKAGES.match(path) is not None)
    )


def is_library(path: str, soname: str) -> bool:
    """Whether other files may ask for the symbols of a shared object."""
    name = path[path.rfind("/") + 1 :]
    return bool(soname or LIBRARY.search(name)) and not any(part in name for part in EXTENSIONS)


def _first_of(pieces: Iterable[Piece]) -> tuple[Piece, Iterator[Piece]]:
    """(the first bytes, HEAD_BYTES at least if there are so many; the pieces after them)."""
    rest = iter(pieces)
    first: Piece = b""
    for piece in rest:
        first = piece if not first else bytes(first) + bytes(piece)
        if len(first) >= HEAD_BYTES:
            break
    return first, rest


def _all(first: Piece, rest: Iterator[Piece]) -> Iterator[Piece]:
    if first:
        yield first
    yield from rest
