"""A new edition of a file as a list of pieces of the old one: nothing is written here, and no payload is read.

    Copy(0, 4096), Copy(9000, 200), Fill(300)      bytes of the old file, in rising order, and zeros between them

``patches`` change single fields on the way. Pieces go forward only, so that one pass over the old file writes the new
one and hashes both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from orbit.image.slim.facts import ContainerPlan, Layout
from orbit.image.slim.fatbin import SIZE_AT

U64 = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Copy:
    """``size`` bytes of the old file from ``offset`` on."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Fill:
    """So many zeros."""

    size: int


@dataclass(frozen=True, slots=True)
class Write:
    """New bytes."""

    data: bytes


type Piece = Copy | Fill | Write
type Patch = tuple[int, bytes]
"""Offset in the old file, and what stands in the new one in place of the bytes there."""


@dataclass(frozen=True, slots=True)
class Edition:
    """What the new file consists of."""

    layout: Layout
    pieces: tuple[Piece, ...]
    patches: tuple[Patch, ...]
    """In rising order of their offsets; they do not overlap, and none crosses the border of a piece."""
    size: int
    why_not: str = ""
    """Why the file could not be made shorter; empty when it was."""
    named: frozenset[int] = frozenset()
    """Virtual addresses of the containers that moved, or could have: a pointer must lead to each of them."""


def in_place(size: int, containers: Sequence[ContainerPlan], why_not: str) -> Edition:
    """Every container keeps its place: its entries move together, and zeros follow them up to where it ended."""
    pieces: list[Piece] = []
    patches: list[Patch] = []
    at = 0
    for container in sorted(containers, key=lambda item: item.offset):
        if container.removed_bytes:
            pieces.append(Copy(at, container.offset - at))
            pieces += kept_pieces(container)
            pieces.append(Fill(container.removed_bytes))
            patches.append(size_patch(container))
            at = container.offset + container.size
    pieces.append(Copy(at, size - at))
    return Edition("holes", tuple(merged(pieces)), tuple(patches), size, why_not)


def kept_pieces(container: ContainerPlan) -> Iterator[Copy]:
    """The header of a container and its entries that stay."""
    first = container.entries[0].offset if container.entries else container.offset + container.size
    yield Copy(container.offset, first - container.offset)
    for entry in container.entries:
        if entry.keep:
            yield Copy(entry.offset, entry.size)


def size_patch(container: ContainerPlan) -> Patch:
    """The size that a container states afterwards."""
    body = sum(entry.size for entry in container.entries if entry.keep)
    return container.offset + SIZE_AT, U64.pack(body)


def merged(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The same pieces with neighbours joined and without empty ones."""
    last: Piece | None = None
    for piece in pieces:
        if size_of(piece) == 0:
            continue
        if isinstance(last, Copy) and isinstance(piece, Copy) and last.offset + last.size == piece.offset:
            last = Copy(last.offset, last.size + piece.size)
        elif isinstance(last, Fill) and isinstance(piece, Fill):
            last = Fill(last.size + piece.size)
        else:
            if last is not None:
                yield last
            last = piece
    if last is not None:
        yield last


def size_of(piece: Piece) -> int:
    """Bytes of a piece in the new file."""
    return len(piece.data) if isinstance(piece, Write) else piece.size
