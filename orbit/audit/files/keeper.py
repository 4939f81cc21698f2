"""Keep of an ELF file that goes by once as a stream what its readers need: tables and headers, not code.

Most of a large library is device code (flash_ops: 1.07 GB, of which 1.04 GB are payloads of fatbin containers) or
machine code. Neither is read. :class:`Keeper` takes the bytes in order, walks containers as they come and keeps

- the start of the file, and the start of every loaded segment that is not code: symbol, string, hash and version tables
  (files changed by patchelf have theirs in a small segment at the end);
- PT_DYNAMIC, the section headers, and the names of sections behind the last segment;
- every container and entry header, but not the payloads (containers are not looked for in a segment of code that
  holds nothing else: it counts as one more payload);
- texts that somebody will look for (which release a library is).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from orbit.audit.binary.elf import HEADER, PT_DYNAMIC, PT_LOAD, SECTION, SEGMENT, MalformedBinary
from orbit.audit.binary.fatbin import CONTAINER, CONTAINER_START, ENTRY, KINDS, MIN_ENTRY_HEADER_BYTES
from orbit.audit.binary.sparse import Range, Sparse

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
ANCHOR_BYTES = 256
"""Kept from the start of a text that was looked for."""
MAX_ANCHORS = 1 << 14
"""Places of such texts in one file; beyond them nothing is claimed about the rest."""
PIECE_BYTES = 1 << 20
"""What is kept is cut into pieces of about this size."""

PF_X = 1
DROP, BUDGET, EXACT, CODE = 0, 1, 2, 3
"""What is done with a part of the file: dropped, kept while there is room, kept, or not even looked at."""


class Keeper:
    """Takes a file of ``size`` bytes in order; :meth:`finish` gives what was kept.

    ``keep``: ranges kept whatever they hold. ``anchors``: texts that somebody will look for outside of containers.
    ``dense``: keep all but the payloads, whatever the size.
    """

    def __init__(
        self, size: int, keep: Iterable[Range] = (), *, anchors: Iterable[bytes] = (), dense: bool = False
    ) -> None:
        self._size = size
        self._keep = tuple(keep)
        self._dense = dense
        self._anchors = () if self._dense else tuple(anchors)
        self._anchors_left = MAX_ANCHORS
        self._back = max((len(text) for text in self._anchors), default=1) - 1
        self._head: list[bytes] | None = []
        self._head_bytes = 0
        self._cuts: list[tuple[int, int, int]] = []  # (end, kind, number of the budget), in order, covering the file
        self._cut = 0
        self._has_code = False
        self._budgets: list[int] = []
        self._pos = 0
        self._carry = b""
        self._kept_bytes = 0
        self._pieces: list[tuple[int, bytes]] = []
        self._small: list[bytes] = []  # the end of what was kept, not yet a piece
        self._small_start = self._small_end = 0
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
        elif not self._carry and self._is_plain_hole(self._pos + len(piece)):
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
        self._plain(carry, 0, len(carry))
        self._flush()
        return Sparse(self._pos, self._pieces, self._holes, self._anchors if self._anchors_left else ())

    def _plan(self, head: bytes) -> None:
        """Decide what to keep from the ELF header and the program headers in ``head``."""
        first = self._size if self._dense else HEAD_BYTES
        exact, budgets, code = [(0, PLAN_BYTES), *self._keep], [(0, first, first)], []
        if len(head) >= HEADER.size and not self._dense:
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
                    if flags & PF_X and offset:
                        code.append((offset, offset + size))
                    elif offset:
                        budgets.append((offset, offset + size, SEGMENT_BYTES))
            budgets.append((self._loads_end, self._size, TAIL_BYTES))
        self._cut_up(exact, budgets, code)

    def _cut_up(self, exact: Iterable[Range], budgets: Sequence[tuple[int, int, int]], code: Sequence[Range]) -> None:
        """Cut the file where what is kept changes. Of overlapping parts exact ones win, then the later budgets."""
        inside = [(max(0, a), min(b, self._size)) for a, b in exact if max(0, a) < min(b, self._size)]
        parts = [(max(0, a), min(b, self._size)) for a, b, _bytes in budgets]
        segments = [(max(0, a), min(b, self._size)) for a, b in code]
        self._has_code = bool(segments)
        self._budgets = [size for _a, _b, size in budgets]
        edges = sorted(
            {0, self._size, *(edge for pair in (*inside, *parts, *segments) if pair[0] < pair[1] for edge in pair)}
        )
        for low, high in itertools.pairwise(edges):
            if any(a <= low < b for a, b in inside):
                self._cuts.append((high, EXACT, 0))
                continue
            if any(a <= low < b for a, b in segments):
                self._cuts.append((high, CODE, 0))
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
            elif self._here()[1] == CODE:
                stop = min(end, at + self._here()[0] - self._pos)
                self._take(piece, at, stop, hole=True)
                at = stop
            else:
                at = self._search(piece, at, end)

    def _search(self, piece: bytes, at: int, end: int) -> int:
        """Take bytes up to the next container, or all but those that could be the first of its magic."""
        last = end
        if self._has_code:
            end = min(end, at + self._here()[0] - self._pos)
        found = piece.find(CONTAINER_START, at, end)
        if found >= 0:
            self._plain(piece, at, found)
            self._near_end = self._pos + NEAR_BYTES
            self._header, self._need, self._container_end = b"", CONTAINER.size, 0
            return found
        stop = end
        if end == last:  # what may be the first bytes of something waits for the next piece
            stop = max(at, end - self._back)
            for length in range(min(len(CONTAINER_START) - 1, end - at), 0, -1):
                if piece.startswith(CONTAINER_START[:length], end - length):
                    stop = min(stop, end - length)
                    break
        self._plain(piece, at, stop)
        self._carry = piece[stop:end]
        return end

    def _plain(self, piece: bytes, at: int, stop: int) -> None:
        """Take bytes outside of containers, what is around texts that are looked for in any case.

        The names of sections are looked for behind the segments only.
        """
        wanted: list[Range] = []
        if self._pos >= self._loads_end and self._names_left and (found := piece.find(NAMES, at, stop)) >= 0:
            self._names_left -= 1
            wanted.append((found - NAMES_BYTES, found + NAMES_BYTES))
        for text in self._anchors:
            found = piece.find(text, at, stop)
            while found >= 0 and self._anchors_left:
                self._anchors_left -= 1
                wanted.append((found, found + ANCHOR_BYTES))
                found = piece.find(text, found + 1, stop)
        for first, last in sorted(wanted):
            self._near_end = max(self._near_end, self._pos + last - at)
            start = max(at, first)
            self._take(piece, at, start)
            at = max(start, min(stop, last))
            self._take(piece, start, at, always=True)
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
        """Whether everything from here to ``stop`` lies in a hole and nothing of it is to be kept."""
        end, kind, _number = self._here()
        if kind == EXACT or stop > end or self._is_near():
            return False
        return stop <= self._hole_end or (kind == CODE and not self._need and self._hole_end <= self._pos)

    def _here(self) -> tuple[int, int, int]:
        """The cut that the next byte lies in."""
        while self._cuts[self._cut][0] <= self._pos:
            self._cut += 1
        return self._cuts[self._cut]

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
            end, kind, number = self._here()
            part = min(stop - at, end - self._pos)
            if always or kind == EXACT:
                keep = part
            elif self._is_near():
                near = self._near_end if self._pos < self._near_end else self._gap_end
                keep = part = min(part, near - self._pos)
            elif hole or kind in (DROP, CODE) or not self._budgets[number]:
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
        if self._small_end != self._pos:
            self._flush()
            self._small_start = self._pos
        self._small.append(data)
        self._pos += len(data)
        self._small_end = self._pos
        if self._small_end - self._small_start >= PIECE_BYTES:
            self._flush()
            self._small_start = self._pos

    def _flush(self) -> None:
        if self._small:
            self._pieces.append((self._small_start, b"".join(self._small)))
            self._small = []
