"""What the readers of an ELF file need of one that goes by once as a stream: its tables and headers, not its code.

Most of a large library is device code (flash_ops: 1.07 GB, of which 1.04 GB are payloads of fatbin containers) or
machine code. Neither is read. :class:`Keeper` takes the bytes in order, walks containers as they come and keeps

- the start of the file, and the start of every loaded segment that is not code: symbol, string, hash and version tables
  (files changed by patchelf have theirs in a small segment at the end);
- PT_DYNAMIC, the section headers, and what lies behind the last segment (names of sections);
- every container and entry header, but not the payloads.

:class:`Sparse` answers the readers from that. It never makes up a byte that could matter: a range that was not kept
raises :class:`NotKept`, and the caller reads the stream once more with ``keep`` naming that range. In the libraries of
the locked stack this does not happen.
"""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Iterable, Sequence
from typing import overload

from orbit.audit.elf import HEADER, PT_DYNAMIC, PT_LOAD, SECTION, SEGMENT, MalformedBinary, MappedFile
from orbit.audit.fatbin import CONTAINER, CONTAINER_START, ENTRY, KINDS, MIN_ENTRY_HEADER_BYTES
from orbit.errors import InputError

type Range = tuple[int, int]
"""Offset of the first byte and of the one after the last."""

PLAN_BYTES = 1 << 16
"""So much of the start is waited for before it is decided what to keep: the program headers are in it."""
HEAD_BYTES = 20 << 20
"""Kept of the start of a file: the tables of the largest library seen (libtorch_cpu) end at 16 MB."""
SEGMENT_BYTES = 16 << 20
"""Kept of every further loaded segment that is not code, payloads of containers not counted."""
TAIL_BYTES = 4 << 20
"""Kept behind the last segment."""
NAMES = b".shstrtab\0"
"""The name of the table of section names is in that table, wherever the linker puts it behind the segments."""
NAMES_BYTES = 1 << 16
"""Kept before the section headers and around :data:`NAMES`."""
MAX_NAMES = 64
KEPT_BYTES = 128 << 20
"""No file may make more than this be kept."""
MAX_SEGMENTS = 64
SMALL_BYTES = 4096
"""Payloads up to this are kept like headers: a hole would cost more than it saves."""
NEAR_BYTES = 512
"""Kept from the start of a container on, whatever it is: readers look ahead a little."""
GAP_BYTES = 4096
"""Kept after the end of a container."""
FILLER = b"\xff"
"""Stands for bytes that were searched for containers while they went by, where only that is asked."""

PF_X = 1
DROP, BUDGET, EXACT = 0, 1, 2


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
    """A file of ``size`` bytes of which ``runs`` were kept and ``holes`` are payloads of containers.

    ``runs`` are (offset, bytes) in order, apart from each other. What is in neither was searched for containers.
    """

    def __init__(self, size: int, runs: Sequence[tuple[int, bytes]], holes: Sequence[Range] = ()) -> None:
        self._size = size
        self._starts = [start for start, _data in runs]
        self._runs = [data for _start, data in runs]
        self._holes = list(holes)

    @property
    def kept_bytes(self) -> int:
        """Bytes in memory."""
        return sum(map(len, self._runs))

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
        if start >= end:
            return -1
        number = bisect.bisect_right(self._starts, start) - 1
        data = self._runs[number] if number >= 0 else b""
        base = self._starts[number] if number >= 0 else 0
        if number < 0 or start >= base + len(data):
            raise NotKept(start, end - start)
        found = data.find(sub, start - base, end - base)
        if found < 0 and end > base + len(data):
            raise NotKept(start, end - start)
        return found if found < 0 else found + base

    def read_at(self, size: int, offset: int) -> bytes:
        """At most ``size`` bytes at ``offset``, for the walk from container to container.

        Reads of the size of a header are exact. In longer ones bytes that were not kept are :data:`FILLER`: no
        container starts there, and it is not padding either. Nobody may look into a payload before having seen the container it belongs to.
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
            data = self._runs[number]
            at = start - self._starts[number]
            if at + stop - start <= len(data):
                return data[at : at + stop - start]
        raise NotKept(start, stop - start)

    def _filled(self, start: int, stop: int) -> bytes:
        parts: list[bytes] = []
        number = max(0, bisect.bisect_right(self._starts, start) - 1)
        at = start
        while at < stop:
            base = self._starts[number] if number < len(self._starts) else stop
            if base > at:
                parts.append(FILLER * (min(base, stop) - at))
                at = min(base, stop)
            if at < stop:
                piece = self._runs[number][at - base : stop - base]
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


class Keeper:
    """Takes a file of ``size`` bytes in order; :meth:`finish` gives what was kept. ``keep``: ranges kept whatever."""

    def __init__(self, size: int, keep: Iterable[Range] = ()) -> None:
        self._size = size
        self._keep = tuple(keep)
        self._head: list[bytes] | None = []
        self._head_bytes = 0
        self._cuts: list[tuple[int, int, int]] = []  # (end, kind, number of the budget), in order, covering the file
        self._cut = 0
        self._budgets: list[int] = []
        self._pos = 0
        self._carry = b""
        self._kept_bytes = 0
        self._run: list[bytes] = []
        self._run_start = 0
        self._run_end = 0
        self._runs: list[tuple[int, bytes]] = []
        self._holes: list[Range] = []
        self._loads_end = 0
        self._names_left = MAX_NAMES
        self._near_end = 0
        self._gap_start = self._gap_end = 0
        self._hole_end = 0
        self._container_end = 0
        self._need = 0
        self._header = b""

    def feed(self, piece: bytes | memoryview) -> None:
        """Take the next bytes. Raises :class:`MalformedBinary` when too much would have to be kept."""
        if self._head is not None:
            self._head.append(bytes(piece))
            self._head_bytes += len(piece)
            if self._head_bytes < min(PLAN_BYTES, self._size):
                return
            piece = b"".join(self._head)
            self._head = None
            self._plan(piece)
        elif self._pos + len(piece) <= self._hole_end and self._is_plain_hole(self._pos + len(piece)):
            self._skip(len(piece))
            return
        self._walk(self._carry + piece if self._carry else bytes(piece))

    def finish(self) -> Sparse:
        """What was kept. A stream that ended early is a shorter file."""
        if self._head is not None:
            piece, self._head = b"".join(self._head), None
            self._plan(piece)
            self._walk(piece)
        carry, self._carry = self._carry, b""
        self._take(carry, 0, len(carry))
        self._end_run()
        return Sparse(self._pos, self._runs, self._holes)

    def _plan(self, head: bytes) -> None:
        """Decide what to keep from the ELF header and the program headers in ``head``."""
        exact, budgets = [(0, min(len(head), self._size)), *self._keep], [(0, HEAD_BYTES, HEAD_BYTES)]
        if len(head) >= HEADER.size:
            fields = HEADER.unpack_from(head)
            table, sections, count, section_count = fields[5], fields[6], fields[10], fields[12]
            exact.append((sections - NAMES_BYTES, sections + max(1, section_count) * SECTION.size))
            for number in range(min(count, MAX_SEGMENTS)):
                at = table + number * SEGMENT.size
                if at + SEGMENT.size > len(head):
                    break
                kind, flags, offset, _address, _physical, size, _memory, _align = SEGMENT.unpack_from(head, at)
                if kind == PT_DYNAMIC and size <= SEGMENT_BYTES:
                    exact.append((offset, offset + size))
                if kind == PT_LOAD:
                    self._loads_end = max(self._loads_end, offset + size)
                    if not flags & PF_X and offset:
                        budgets.append((offset, offset + size, SEGMENT_BYTES))
            budgets.append((self._loads_end, self._size, TAIL_BYTES))
        self._cut_up(exact, budgets)

    def _cut_up(self, exact: Iterable[Range], budgets: Sequence[tuple[int, int, int]]) -> None:
        """Cut the file where what is kept changes. Of overlapping parts exact ones win, then the later budgets."""
        inside = [(max(0, a), min(b, self._size)) for a, b in exact if max(0, a) < min(b, self._size)]
        parts = [(max(0, a), min(b, self._size)) for a, b, _bytes in budgets]
        self._budgets = [size for _a, _b, size in budgets]
        edges = sorted({0, self._size, *(edge for pair in (*inside, *parts) if pair[0] < pair[1] for edge in pair)})
        for low, high in itertools.pairwise(edges):
            if any(a <= low < b for a, b in inside):
                self._cuts.append((high, EXACT, 0))
                continue
            owner = max((number for number, (a, b) in enumerate(parts) if a <= low < b), default=-1)
            self._cuts.append((high, BUDGET if owner >= 0 else DROP, max(owner, 0)))
        self._cuts.append((1 << 63, DROP, 0))

    def _walk(self, piece: bytes) -> None:
        """Follow containers through ``piece``."""
        self._carry = b""
        at, end = 0, len(piece)
        while at < end:
            if self._pos < self._hole_end:
                stop = min(end, at + self._hole_end - self._pos)
                self._take(piece, at, stop, hole=True)
                at = stop
            elif self._need:
                stop = min(end, at + self._need - len(self._header))
                self._header += piece[at:stop]
                self._take(piece, at, stop, always=True)
                at = stop
                if len(self._header) == self._need:
                    self._step(self._header)
            else:
                at = self._search(piece, at, end)

    def _search(self, piece: bytes, at: int, end: int) -> int:
        """Take bytes up to the next container, or all but those that could be the first of its magic."""
        found = piece.find(CONTAINER_START, at)
        if found >= 0:
            self._plain(piece, at, found)
            self._near_end = self._pos + NEAR_BYTES
            self._header, self._need, self._container_end = b"", CONTAINER.size, 0
            return found
        stop = end
        for length in range(min(len(CONTAINER_START) - 1, end - at), 0, -1):
            if piece.endswith(CONTAINER_START[:length]):
                stop = end - length
                break
        self._plain(piece, at, stop)
        self._carry = piece[stop:end]
        return end

    def _plain(self, piece: bytes, at: int, stop: int) -> None:
        """Take bytes outside of containers; behind the segments, what is around the names of sections for sure."""
        while self._pos >= self._loads_end and self._names_left and (found := piece.find(NAMES, at, stop)) >= 0:
            self._names_left -= 1
            first, last = max(at, found - NAMES_BYTES), min(stop, found + NAMES_BYTES)
            self._take(piece, at, first)
            self._take(piece, first, last, always=True)
            at = last
        self._take(piece, at, stop)

    def _step(self, header: bytes) -> None:
        """A header of a container or of an entry is complete; what is no container ends the walk of it."""
        self._header, self._need = b"", 0
        if not self._container_end:
            end = self._pos + CONTAINER.unpack(header)[3]
            if end <= self._size:
                self._container_end = end
                self._next_entry()
            return
        kind, _version, header_bytes, padded_bytes, compressed_bytes = ENTRY.unpack(header)[:5]
        following = self._pos - len(header) + header_bytes + padded_bytes
        sound = kind in KINDS and header_bytes >= MIN_ENTRY_HEADER_BYTES and compressed_bytes <= padded_bytes
        if not sound or following > self._container_end:
            return
        if following - self._pos <= SMALL_BYTES:
            self._near_end = max(self._near_end, following)
        self._hole_end = following
        self._next_entry(following)

    def _next_entry(self, position: int | None = None) -> None:
        left = self._container_end - (self._pos if position is None else position)
        if left >= MIN_ENTRY_HEADER_BYTES:
            self._need = MIN_ENTRY_HEADER_BYTES
        elif not left:
            self._gap_start, self._gap_end = self._container_end, self._container_end + GAP_BYTES

    def _is_plain_hole(self, stop: int) -> bool:
        """Whether nothing from here to ``stop``, all in a hole, is to be kept."""
        while self._cuts[self._cut][0] <= self._pos:
            self._cut += 1
        end, kind, _number = self._cuts[self._cut]
        return kind != EXACT and stop <= end and not self._is_near()

    def _is_near(self) -> bool:
        return self._pos < self._near_end or self._gap_start <= self._pos < self._gap_end

    def _skip(self, count: int) -> None:
        start, self._pos = self._pos, self._pos + count
        if self._holes and self._holes[-1][1] == start:
            self._holes[-1] = (self._holes[-1][0], self._pos)
        else:
            self._holes.append((start, self._pos))

    def _take(self, piece: bytes, at: int, stop: int, *, always: bool = False, hole: bool = False) -> None:
        """Account for ``piece[at:stop]``: keep, drop, or leave as a hole, cut by cut."""
        while at < stop:
            while self._cuts[self._cut][0] <= self._pos:
                self._cut += 1
            end, kind, number = self._cuts[self._cut]
            part = min(stop - at, end - self._pos)
            if always or kind == EXACT:
                keep = part
            elif self._is_near():
                near = self._near_end if self._pos < self._near_end else self._gap_end
                keep = part = min(part, near - self._pos)
            elif hole or kind == DROP or not self._budgets[number]:
                keep = 0
            else:
                keep = part = min(part, self._budgets[number])
                self._budgets[number] -= keep
            if keep:
                self._keep_bytes(piece[at : at + part])
            elif hole:
                self._skip(part)
            else:
                self._pos += part
            at += part

    def _keep_bytes(self, data: bytes) -> None:
        self._kept_bytes += len(data)
        if self._kept_bytes > KEPT_BYTES:
            raise MalformedBinary(f"more than {KEPT_BYTES} bytes of tables and headers: not read as a stream")
        if self._run_end != self._pos:
            self._end_run()
            self._run_start = self._pos
        self._run.append(data)
        self._pos += len(data)
        self._run_end = self._pos

    def _end_run(self) -> None:
        if self._run:
            self._runs.append((self._run_start, b"".join(self._run)))
            self._run = []
