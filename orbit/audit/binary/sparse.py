"""A file of which only a part is in memory: what was kept of a stream, or a part of a mapped archive.

:class:`Sparse` is made by :class:`orbit.audit.files.keeper.Keeper`. It never makes up a byte that could matter: a
range that was not kept raises :class:`NotKept`, and the caller reads the stream once more with ``keep`` naming that
range. In the libraries of the locked stack this does not happen.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterable, Sequence
from typing import overload

from orbit.audit.binary.elf import MappedFile
from orbit.audit.binary.fatbin import CONTAINER_START, MIN_ENTRY_HEADER_BYTES
from orbit.errors import InputError

type Range = tuple[int, int]
"""Offset of the first byte and of the one after the last."""

FIND_BYTES = 1 << 18
FILLER = b"\xff"
"""Stands for bytes that were searched for containers while they went by, where only that is asked."""


class NotKept(InputError):
    """A reader needs bytes of a stream that were not kept: read the stream again with ``keep``."""

    def __init__(self, offset: int, size: int) -> None:
        super().__init__(f"{size} bytes at {offset} of a stream were not kept", fix="read it again")
        self.range: Range = (offset, offset + size)


class Window:
    """A part of a mapped file as a file of its own: a member of an uncompressed archive, read where it lies."""

    def __init__(self, data: MappedFile, offset: int, size: int) -> None:
        self._data = data
        self._offset = offset
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...
    def __getitem__(self, key: int | slice, /) -> int | bytes:
        if isinstance(key, int):
            if not 0 <= key < self._size:
                raise IndexError(key)
            return self._data[self._offset + key]
        start, stop, _step = key.indices(self._size)
        return self._data[self._offset + start : self._offset + max(start, stop)]

    def find(self, sub: bytes, start: int = 0, end: int | None = None, /) -> int:
        """The position of ``sub`` in the given range, or -1."""
        start, end, _step = slice(start, end).indices(self._size)
        found = self._data.find(sub, self._offset + start, self._offset + end)
        return found if found < 0 else found - self._offset

    def read_at(self, size: int, offset: int) -> bytes:
        """At most ``size`` bytes at ``offset``, read without touching the map."""
        return os.pread(self._data.handle, min(size, max(0, self._size - offset)), self._offset + offset)


class Sparse:
    """A file of ``size`` bytes of which ``pieces`` were kept and ``holes`` (payloads, code) were not even looked at.

    ``pieces`` are (offset, bytes) in order and do not overlap. What is in neither was searched for containers while it
    went by, and for ``anchors``: the start of each of these was kept (:data:`orbit.audit.files.keeper.ANCHOR_BYTES`).
    """

    def __init__(
        self,
        size: int,
        pieces: Sequence[tuple[int, bytes]],
        holes: Sequence[Range] = (),
        anchors: Iterable[bytes] = (),
    ) -> None:
        self._size = size
        self._starts = [start for start, _data in pieces]
        self._pieces = [data for _start, data in pieces]
        self._holes = list(holes)
        self._anchors = frozenset(anchors)

    @property
    def kept_bytes(self) -> int:
        """Bytes in memory."""
        return sum(map(len, self._pieces))

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...
    def __getitem__(self, key: int | slice, /) -> int | bytes:
        if isinstance(key, int):
            if not 0 <= key < self._size:
                raise IndexError(key)
            return self._strict(key, key + 1)[0]
        start, stop, _step = key.indices(self._size)
        return self._strict(start, stop) if start < stop else b""

    def find(self, sub: bytes, start: int = 0, end: int | None = None, /) -> int:
        """The position of ``sub`` in the given range, or -1. What comes after the first hit need not be kept."""
        start, end, _step = slice(start, end).indices(self._size)
        number = bisect.bisect_right(self._starts, start) - 1
        if number >= 0:  # mostly it is in the same piece
            base = self._starts[number]
            found = self._pieces[number].find(sub, start - base, max(0, end - base))
            if found >= 0:
                return base + found
        known = sub in self._anchors
        while end - start >= max(len(sub), 1):
            stop = min(start + FIND_BYTES, end)
            block = self.searched(start, stop, sub) if known else self._kept_from(start, stop)
            found = block.find(sub)
            if found >= 0:
                return start + found
            if len(block) < stop - start:
                raise NotKept(start, end - start)
            if stop == end:
                break
            start = stop - len(sub) + 1
        return -1

    def searched(self, start: int, stop: int, text: bytes) -> bytes:
        """The bytes from ``start`` to ``stop`` for somebody who looks for ``text`` in them and for nothing else."""
        stop = min(stop, self._size)
        if text not in self._anchors:
            return self._strict(start, stop)
        if self._hole_after(start) < stop:
            raise NotKept(start, stop - start)
        return self._filled(start, stop)

    def read_at(self, size: int, offset: int) -> bytes:
        """At most ``size`` bytes at ``offset``, for the walk from container to container.

        Reads of the size of a header are exact. In longer ones bytes that were not kept are :data:`FILLER`: no
        container starts there, and it is not padding either. Nobody may look into a payload before having seen the
        container it belongs to.
        """
        stop = min(offset + size, self._size)
        if offset < 0 or stop <= offset:
            return b""
        if size <= MIN_ENTRY_HEADER_BYTES:
            return self._strict(offset, stop)
        hole = self._hole_after(offset)
        if hole <= offset:
            raise NotKept(offset, stop - offset)
        data = self._filled(offset, stop)
        if hole < stop and not 0 <= data.find(CONTAINER_START) < hole - offset:
            raise NotKept(offset, stop - offset)
        return data

    def _strict(self, start: int, stop: int) -> bytes:
        number = bisect.bisect_right(self._starts, start) - 1
        if number >= 0:
            data, at = self._pieces[number], start - self._starts[number]
            if at + stop - start <= len(data):
                return data[at : at + stop - start]
        data = self._kept_from(start, stop)
        if len(data) < stop - start:
            raise NotKept(start, stop - start)
        return data

    def _kept_from(self, start: int, stop: int) -> bytes:
        """The bytes from ``start`` on that were kept without a gap, at most up to ``stop``."""
        number = bisect.bisect_right(self._starts, start) - 1
        if number < 0:
            return b""
        base, data = self._starts[number], self._pieces[number]
        found = data[start - base : stop - base]
        at = base + len(data)
        if at >= stop or at < start:
            return found
        parts = [found]
        while at < stop and number + 1 < len(self._starts) and self._starts[number + 1] == at:
            number += 1
            parts.append(self._pieces[number][: stop - at])
            at += len(self._pieces[number])
        return b"".join(parts)

    def _filled(self, start: int, stop: int) -> bytes:
        """The bytes from ``start`` to ``stop``, :data:`FILLER` where they were not kept."""
        parts: list[bytes] = []
        number = max(0, bisect.bisect_right(self._starts, start) - 1)
        at = start
        while at < stop:
            base = self._starts[number] if number < len(self._starts) else stop
            if base > at:
                parts.append(FILLER * (min(base, stop) - at))
                at = min(base, stop)
            if at < stop:
                piece = self._pieces[number][at - base : stop - base]
                parts.append(piece)
                at += len(piece)
            number += 1
        return b"".join(parts)

    def _hole_after(self, offset: int) -> int:
        """The first offset from ``offset`` on that lies in a hole; the size when there is none."""
        number = bisect.bisect_right(self._holes, (offset, self._size))
        if number and offset < self._holes[number - 1][1]:
            return offset
        return self._holes[number][0] if number < len(self._holes) else self._size
