"""Look for the patterns of all symptoms in a text of any size: read once, in pieces, nothing of it kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from orbit.core.records import Record
from orbit.doctor.catalog import Symptom, patterns_of
from orbit.doctor.patterns import MOST_WIDTH, Pattern

PIECE_BYTES = 1 << 20
MOST_KINDS = 1 << 20
"""Kinds of lines that are remembered."""
ONE_DIGIT = bytes.maketrans(b"123456789", b"000000000")
SHOWN_BYTES = 300
COLOUR = re.compile(rb"\x1b\[[0-9;]{0,20}[A-Za-z]")
SPEAKER = re.compile(rb"^\([A-Za-z_][\w.:<>\[\], -]{0,80} ?pid=\d{1,10}(?:, ip=[0-9a-fA-F.:]{1,45})?\) ", re.MULTILINE)
"""What Ray puts in front of the lines of its workers."""
BOX = re.compile(rb"^(?:\[rank\d{1,5}\]: ?|\d{1,5}: )", re.MULTILINE)
"""What torchrun and srun --label put in front of the lines of a rank."""


class Hit(Record, frozen=True, kw_only=True):
    """Where a symptom is named in a text."""

    symptom: str
    line: int
    """Counted from 1."""
    text: str
    """The line, cut to :data:`SHOWN_BYTES`."""
    weight: int
    """Characters of the pattern that are given letter for letter."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What a text holds."""

    hits: tuple[Hit, ...]
    """At most one for each symptom: its first."""
    lines: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Probe:
    symptom: str
    pattern: Pattern


class _Kinds:
    """Lines that were searched before, their digits apart: a log has a million lines of a hundred kinds."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def fresh(self, block: bytes) -> bytes:
        """The lines of a kind that did not come before, each once, every digit a 0."""
        lines = dict.fromkeys(block.translate(ONE_DIGIT).split(b"\n"))
        new = [line for line in lines if hash(line) not in self._seen]
        if len(self._seen) > MOST_KINDS:
            self._seen.clear()
        self._seen.update(map(hash, new))
        return b"\n".join(new)


def scan(pieces: Iterable[bytes], catalog: Mapping[str, Symptom]) -> Scan:
    """The first place of each symptom of ``catalog`` in a text that comes in pieces of any size."""
    probes = [_Probe(name, pattern) for name in catalog for pattern in patterns_of(name)]
    found: dict[str, Hit] = {}
    kinds = _Kinds()
    before, lines, total = b"", 0, 0
    for piece in _blocks(pieces):
        total += len(piece)
        block = before + _clean(piece)
        first = lines - before.count(b"\n")
        for name, hit in _search(block, kinds.fresh(block), probes, first):
            found[name] = _earlier(found.get(name), hit)
        probes = [probe for probe in probes if probe.symptom not in found]
        lines = first + block.count(b"\n")
        before = block[-MOST_WIDTH:]
        cut = before.find(b"\n")
        before = before[cut + 1 :] if cut >= 0 else before
    return Scan(tuple(found.values()), lines + bool(before and not before.endswith(b"\n")), total)


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks that end with a line where they can, of about :data:`PIECE_BYTES`."""
    rest = b""
    for piece in pieces:
        for begin in range(0, len(piece), PIECE_BYTES):
            rest += piece[begin : begin + PIECE_BYTES]
            if len(rest) >= PIECE_BYTES:
                cut = rest.rfind(b"\n") + 1 or len(rest)
                yield rest[:cut]
                rest = rest[cut:]
    if rest:
        yield rest


def _clean(block: bytes) -> bytes:
    """Without what programs put around the lines of others: colours, who speaks, line ends of other systems."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\x1b" in block:
        block = COLOUR.sub(b"", block)
    if b"pid=" in block:
        block = SPEAKER.sub(b"", block)
    return BOX.sub(b"", block)


def _search(block: bytes, fresh: bytes, probes: Iterable[_Probe], first: int) -> Iterator[tuple[str, Hit]]:
    """The first match of each probe; ``fresh``: what is enough to look at for most of them."""
    for probe in probes:
        if probe.pattern.literal not in (fresh if probe.pattern.digits_alike else block):
            continue
        match = probe.pattern.search.search(block)
        if match:
            line = first + block.count(b"\n", 0, match.start()) + 1
            yield (
                probe.symptom,
                Hit(symptom=probe.symptom, line=line, text=_shown(block, match.start()), weight=probe.pattern.weight),
            )


def _shown(block: bytes, at: int) -> str:
    begin = max(block.rfind(b"\n", 0, at) + 1, at - SHOWN_BYTES // 2)
    end = block.find(b"\n", at)
    text = block[begin : end if end >= 0 else len(block)][:SHOWN_BYTES]
    return "".join(c if c.isprintable() else "?" for c in text.decode("utf-8", errors="replace")).strip()


def _earlier(one: Hit | None, other: Hit) -> Hit:
    if one is None:
        return other
    return min(one, other, key=lambda hit: (hit.line, -hit.weight))
