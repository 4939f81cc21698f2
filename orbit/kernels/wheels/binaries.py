"""Two builds of one binary compared: host sections, symbols, and device code image by image.

Readers are the audit's. Device code is compared unpacked, one image at a time; nothing larger than one image or one
section other than the fatbins' is held.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orbit.audit.binary.elf import Elf, MalformedBinary, Section, is_elf, open_elf
from orbit.audit.binary.fatbin import SECTIONS, Container, Image, containers_of
from orbit.audit.binary.payload import unpack
from orbit.core.files import CHUNK_BYTES
from orbit.core.records import Record
from orbit.kernels.wheels.causes import TEXT, Texts, explain, paths_in, plain, skeleton, squeezed, texts_of

CODE = re.compile(r"^\.(?:text|init|fini|plt)(?:\.|$)|^\.nv\.(?:capmerc|merc)\.text\.")
TABLES = re.compile(
    r"^\.(?:rela?|dyn|sym|str|shstr|gnu\.|hash|got|eh_frame|gcc_except|init_array|fini_array|data\.rel\.ro|nvFatBinSegment"
    r"|debug_|nv_debug|nv\.info|nv\.callgraph|nv\.prototype|nv\.compat|nv\.merc\.(?!text)|note\.|nv\.shared|llvm)"
)
"""Sections of positions, lengths and indices: they follow from what else is in the file."""
BUILD_ID, TITLES = ".note.gnu.build-id", ".shstrtab"
KERNEL = re.compile(r"^\.text\.(.+)$")
SHOWN = 20
MAX_SECTION_BYTES = 1 << 28
"""Texts of larger sections are not looked for."""
MAX_TEXTS = 1 << 20
"""Nor of sections with more texts: these are numbers that happen to be letters (cuDNN's heuristics: 60 MB of them)."""


class SectionDifference(Record, frozen=True, kw_only=True):
    """One section that differs."""

    name: str
    """As the left file has it."""
    left_bytes: int
    right_bytes: int
    differing_bytes: int
    """Bytes that differ place by place, and those that only the longer one has."""
    first: int
    """Where the first one is, from the start of the section."""
    causes: tuple[str, ...]


class ImageDifference(Record, frozen=True, kw_only=True):
    """One image of a fatbin container that differs."""

    section: str
    container: int
    """Position of the container in its section."""
    arch: str
    kernels: tuple[str, ...] = ()
    """Kernels whose code differs, without circumstances of the build in their names."""
    sections: tuple[SectionDifference, ...] = ()
    causes: tuple[str, ...]


class BinaryDifference(Record, frozen=True, kw_only=True):
    """Two builds of one binary."""

    sections: tuple[SectionDifference, ...] = ()
    images: tuple[ImageDifference, ...] = ()
    symbols_left: tuple[str, ...] = ()
    """Names that only one has, the first ones; not those that differ by circumstances."""
    symbols_right: tuple[str, ...] = ()
    paths_left: tuple[str, ...] = ()
    """Absolute paths that only one has, the first ones."""
    paths_right: tuple[str, ...] = ()
    texts: dict[str, tuple[str, str]] = {}
    """For each circumstance one pair of texts that it explains."""
    causes: tuple[str, ...]


@dataclass(slots=True)
class _Gathered:
    """What adds up over the sections and images of two files."""

    causes: set[str] = field(default_factory=set)
    texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    paths: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))
    symbols: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))

    def take(self, found: Texts) -> None:
        self.causes |= found.causes
        self.texts = {**found.pairs, **self.texts}


def compare_binaries(left: Path, right: Path) -> BinaryDifference:
    """What differs between two ELF files, and why. Raises :class:`orbit.audit.binary.elf.MalformedBinary`."""
    with open_elf(left, "left") as one, open_elf(right, "right") as two:
        all_in = _Gathered()
        sections = tuple(_sections(one, two, all_in))
        images = tuple(_images(one, two, all_in))
    causes = all_in.causes.union(*(item.causes for item in sections), *(item.causes for item in images))
    return BinaryDifference(
        sections=sections,
        images=images,
        symbols_left=tuple(sorted(all_in.symbols[0])[:SHOWN]),
        symbols_right=tuple(sorted(all_in.symbols[1])[:SHOWN]),
        paths_left=tuple(sorted(all_in.paths[0] - all_in.paths[1])[:SHOWN]),
        paths_right=tuple(sorted(all_in.paths[1] - all_in.paths[0])[:SHOWN]),
        texts=all_in.texts,
        causes=tuple(sorted(causes)),
    )


def _sections(one: Elf, two: Elf, all_in: _Gathered) -> Iterator[SectionDifference]:
    """Sections that differ, matched by name without circumstances and place among those of that name."""
    left, right = _by_name(one), _by_name(two)
    found: list[tuple[Section, Section]] = []
    for key in sorted(left.keys() | right.keys()):
        first, second = left.get(key), right.get(key)
        if first is None or second is None:
            alone = first or second
            assert alone is not None
            sizes = (alone.size, 0) if first else (0, alone.size)
            yield SectionDifference(
                name=alone.name, left_bytes=sizes[0], right_bytes=sizes[1], differing_bytes=alone.size, first=0,
                causes=("missing",),
            )  # fmt: skip
        elif not _equal(one, first, two, second):
            found.append((first, second))
    reach = max(
        (
            max(abs(left[key].size - right[key].size), abs(left[key].address - right[key].address))
            for key in left.keys() & right.keys()
        ),
        default=0,
    )
    for first, second in found:
        yield _section(one, first, two, second, reach=reach, all_in=all_in)


def _by_name(elf: Elf) -> dict[tuple[str, int], Section]:
    counts: Counter[str] = Counter()
    found = {}
    for section in elf.sections():
        name = plain(section.name)
        found[name, counts[name]] = section
        counts[name] += 1
    return found


def _equal(one: Elf, first: Section, two: Elf, second: Section) -> bool:
    if first.size != second.size:
        return False
    return all(
        one.data[first.offset + at : first.offset + min(at + CHUNK_BYTES, first.size)]
        == two.data[second.offset + at : second.offset + min(at + CHUNK_BYTES, first.size)]
        for at in range(0, first.size, CHUNK_BYTES)
    )


def _section(
    one: Elf, first: Section, two: Elf, second: Section, *, reach: int, all_in: _Gathered
) -> SectionDifference:
    count, at = 0, -1
    for start in range(0, min(first.size, second.size), CHUNK_BYTES):
        size = min(CHUNK_BYTES, first.size - start, second.size - start)
        a = one.data[first.offset + start : first.offset + start + size]
        b = two.data[second.offset + start : second.offset + start + size]
        if a != b:
            changed = (int.from_bytes(a, "little") ^ int.from_bytes(b, "little")).to_bytes(size, "little")
            count += size - changed.count(0)
            at = at if at >= 0 else start + size - len(changed.lstrip(b"\0"))
    return SectionDifference(
        name=first.name,
        left_bytes=first.size,
        right_bytes=second.size,
        differing_bytes=count + abs(first.size - second.size),
        first=at if at >= 0 else min(first.size, second.size),
        causes=_why(one, first, two, second, reach=reach, all_in=all_in),
    )


def _why(one: Elf, first: Section, two: Elf, second: Section, *, reach: int, all_in: _Gathered) -> tuple[str, ...]:
    """Why two sections of one name differ; empty for fatbins, which are compared image by image."""
    name = first.name
    if name in SECTIONS or name == BUILD_ID:
        return ("build-id",) if name == BUILD_ID else ()
    is_code = bool(CODE.search(name))
    if max(first.size, second.size) > MAX_SECTION_BYTES:
        return ("code",) if is_code else ("data",)
    a = bytes(one.data[first.offset : first.offset + first.size])
    b = bytes(two.data[second.offset : second.offset + second.size])
    if is_code:
        return ("moved",) if only_moved(a, b, reach) else ("code",)
    return _of_data(name, a, b, reach=reach, all_in=all_in)


def _of_data(name: str, a: bytes, b: bytes, *, reach: int, all_in: _Gathered) -> tuple[str, ...]:
    """Why two sections differ that hold no code."""
    if any(sum(1 for _ in itertools.islice(TEXT.finditer(side), MAX_TEXTS + 1)) > MAX_TEXTS for side in (a, b)):
        return ("data",)
    for place, (mine, other) in enumerate(((a, b), (b, a))):
        all_in.paths[place].update(paths_in(mine) - paths_in(other))
    left, right = texts_of(a), texts_of(b)
    texts = explain(left, right)
    all_in.take(texts)
    if name == TITLES and not texts.explained:
        return ("moved",)  # names of sections that only one has: these are said to be missing
    if name in (".strtab", ".dynstr"):
        all_in.symbols[0].update(texts.left)
        all_in.symbols[1].update(texts.right)
    if not texts.explained:
        return (*sorted(texts.causes), "data")
    if TABLES.search(name) or skeleton(a) == skeleton(b):
        return tuple(sorted(texts.causes)) or (("moved",) if TABLES.search(name) else ("data",))
    rests = _without(a, left - right), _without(b, right - left)
    moved = any(only_moved(change(rests[0]), change(rests[1]), reach) for change in (bytes, squeezed))
    return (*sorted(texts.causes), "moved" if moved else "data")


def _without(data: bytes, texts: Counter[str]) -> bytes:
    """``data`` without the given texts."""
    gone = {text.encode("ascii") for text in texts}
    return TEXT.sub(lambda match: b"" if match[0] in gone else match[0], data) if gone else data


def only_moved(left: bytes, right: bytes, reach: int) -> bool:
    """Whether code or data differ in nothing but distances, each by at most ``reach`` bytes.

    An instruction or a table holds a distance in four bytes. Each place where the two differ must lie in four bytes
    that, read as a number, differ by no more than what anything in the file moved. A constant that changed by as little
    cannot be told from a distance.
    """
    if len(left) != len(right) or (left != right and not reach):
        return False
    at = -1
    while (at := _next_difference(left, right, at + 1)) >= 0:
        for start in range(at, max(at - 4, -1), -1):
            a, b = (int.from_bytes(data[start : start + 4], "little", signed=True) for data in (left, right))
            if start + 4 <= len(left) and abs(a - b) <= reach:
                at = start + 3
                break
        else:
            return False
    return True


def _next_difference(left: bytes, right: bytes, start: int) -> int:
    """The first position from ``start`` on at which two texts of one length differ; -1 when there is none."""
    step = 64
    while start < len(left):
        a, b = left[start : start + step], right[start : start + step]
        if a != b:
            if step <= 64:
                return next(start + i for i in range(len(a)) if a[i] != b[i])
            step = 64
        else:
            start, step = start + step, min(step * 2, CHUNK_BYTES)
    return -1


# --- device code ------------------------------------------------------------------------------------------------------


def _images(one: Elf, two: Elf, all_in: _Gathered) -> Iterator[ImageDifference]:
    left, right = _keyed(containers_of(one)), _keyed(containers_of(two))
    for key in sorted(left.keys() | right.keys()):
        section, container, arch, _place = key
        first, second = left.get(key), right.get(key)
        if first is None or second is None:
            yield ImageDifference(section=section, container=container, arch=arch, causes=("missing",))
            continue
        a, b = _payload(one, first), _payload(two, second)
        if a == b and first[2:] == second[2:]:
            continue
        found = _image(one, first, two, second, payloads=(a, b), all_in=all_in)
        if found is not None:
            sections, causes = found
            kernels = {
                plain(match[1]) for part in sections if "code" in part.causes and (match := KERNEL.match(part.name))
            }
            yield ImageDifference(
                section=section, container=container, arch=arch, kernels=tuple(sorted(kernels)[:SHOWN]),
                sections=sections, causes=causes,
            )  # fmt: skip


def _keyed(containers: Iterator[Container]) -> Mapping[tuple[str, int, str, int], Image]:
    """Images by section, container, architecture, and place among those of that architecture."""
    found = {}
    for box in containers:
        counts: Counter[str] = Counter()
        for image in box.images:
            found[box.section, box.index, image.arch, counts[image.arch]] = image
            counts[image.arch] += 1
    return found


def _payload(elf: Elf, image: Image) -> bytes:
    return bytes(elf.data[image.offset : image.offset + image.size])


def _image(
    one: Elf, first: Image, two: Elf, second: Image, *, payloads: tuple[bytes, bytes], all_in: _Gathered
) -> tuple[tuple[SectionDifference, ...], tuple[str, ...]] | None:
    """(sections of the cubins that differ, why); None when nothing but unused bits differs."""
    a = unpack(payloads[0], first.compression, first.uncompressed_size, one.label)
    b = unpack(payloads[1], second.compression, second.uncompressed_size, two.label)
    if a == b:
        return ((), ("packing",)) if payloads[0] != payloads[1] else None
    if not (is_elf(a[:6]) and is_elf(b[:6])):
        texts = explain(_lines(a), _lines(b))
        all_in.take(texts)
        return (), tuple(sorted(texts.causes)) if texts.explained and texts.causes else ("code",)
    try:
        inner = _Gathered()
        sections = tuple(_sections(Elf(a, one.label), Elf(b, two.label), inner))
    except MalformedBinary:
        return (), ("data",)
    all_in.texts = {**inner.texts, **all_in.texts}
    for place in (0, 1):
        all_in.paths[place].update(inner.paths[place])
        all_in.symbols[place].update(inner.symbols[place])
    causes = {cause for part in sections for cause in part.causes} or {"moved"}
    return sections, tuple(sorted(causes))


def _lines(data: bytes) -> Counter[str]:
    """Lines of PTX text, without the zeros behind it."""
    return Counter(data.rstrip(b"\0").decode("utf-8", "replace").splitlines())
