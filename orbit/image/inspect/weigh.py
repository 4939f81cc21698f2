"""What fills an image: the bytes of its layers divided by owner, kind and architecture. Pure functions over facts."""

from __future__ import annotations

import heapq
import stat
from base64 import urlsafe_b64decode
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orbit.audit.facts import SharedObject, Tree, printable
from orbit.audit.images.layers import IMPLIED, Entry, LayerFacts
from orbit.audit.images.overlay import Stacked, stack
from orbit.image.inspect.kinds import DEVICE, KINDS, GpuUse, kind_of, loose_arch, users_of
from orbit.image.inspect.owners import OTHER, Owner, Owners
from orbit.image.inspect.pull import Measure
from orbit.image.inspect.records import (
    ArchitectureRow,
    CellRow,
    Contents,
    DuplicateRow,
    FileRow,
    HiddenRow,
    KindRow,
    OwnerRow,
)

LINK = "link"
CELL_FILES = 24
"""Files of a cell that are kept by name, the largest ones."""
LARGEST, DUPLICATES, HIDDEN, PATHS = 100, 100, 100, 8
ARCHIVE = Owner(OTHER, "(archive)")
"""Owns what belongs to no file: the end of a tar stream, members that later ones of the layer replace."""


class CellKey(NamedTuple):
    """What is added up."""

    layer: int
    owner: Owner
    kind: str
    arch: str


class Part(NamedTuple):
    """The bytes of one file that are of one kind."""

    disk: int
    pull: int | None
    """None when it was not measured."""
    path: str


@dataclass(slots=True)
class Cell:
    """What one owner has of one kind in one layer."""

    files: int = 0
    disk: int = 0
    pull: int = 0
    pieces: int = 0
    largest: list[Part] = field(default_factory=list)
    """A heap of the largest parts."""

    def add(self, part: Part, pieces: int) -> None:
        """Add one part; ``pieces`` of it are images of device code."""
        self.files += 1
        self.disk += part.disk
        self.pull += part.pull or 0
        self.pieces += pieces
        _keep_largest(self.largest, part, CELL_FILES)


@dataclass(slots=True)
class Weighed:
    """An image divided up."""

    titles: tuple[str, ...]
    """Names of the layers."""
    measured: bool
    """Whether pull bytes are known."""
    cells: dict[CellKey, Cell] = field(default_factory=dict)
    copies: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """(size, path) of every file by digest."""
    hidden: list[tuple[int, int | None, str, int]] = field(default_factory=list)
    """(disk, pull, path, layer) of files that upper layers hide."""
    largest: list[tuple[Part, CellKey]] = field(default_factory=list)
    """A heap of the largest files, whole; the key says what they mostly are."""
    files: int = 0
    device_files: int = 0
    """Files with device code in them."""

    def pull(self, cell: Cell) -> int | None:
        """The pull bytes of a cell, None when they were not measured."""
        return cell.pull if self.measured else None

    def cell(self, key: CellKey) -> Cell:
        """The cell of that key, made when there is none."""
        found = self.cells.get(key)
        if found is None:
            found = self.cells[key] = Cell()
        return found


def weigh(layers: Sequence[LayerFacts], titles: Sequence[str], measures: Sequence[Measure] | None) -> Weighed:
    """Divide the layers, lowest first, up; ``measures`` of their blobs where they are kept as they are pulled."""
    stacked = stack(layers)
    owners = owners_of_image(layers, stacked)
    found = Weighed(tuple(titles), measures is not None)
    for number, layer in enumerate(layers):
        measure = measures[number] if measures is not None else None
        taken = _Layer(number, layer.all_digests(), layer.all_objects(), measure)
        for path, entry in layer.entries():
            if entry.number != IMPLIED and entry.number not in taken.seen:
                hidden = stacked.sources.get(path) != (number, entry.number)
                _weigh_one(found, taken, path, entry, owner=owners.of(path), hidden=hidden)
        if measure is not None and measure.total > taken.pulled:
            rest = Part(0, measure.total - taken.pulled, ARCHIVE.name)
            found.cell(CellKey(number, ARCHIVE, LINK, "")).add(rest, 0)
    return found


def owners_of_image(layers: Sequence[LayerFacts], stacked: Stacked) -> Owners:
    """Who owns what in a root file system made of ``layers``."""
    members = {source: path for path, source in stacked.sources.items()}
    texts = {
        path: text
        for number, layer in enumerate(layers)
        for member, text in layer.texts.items()
        if (path := members.get((number, member))) is not None
    }
    return Owners(Tree(stacked.entries, stacked.links, (), (), rooted=True), texts)


@dataclass(slots=True)
class _Layer:
    """The layer that is divided up."""

    number: int
    digests: Mapping[int, str]
    objects: Mapping[int, SharedObject]
    measure: Measure | None
    seen: set[int] = field(default_factory=set)
    """Members; further names of one are hard links."""
    pulled: int = 0


def _weigh_one(found: Weighed, layer: _Layer, path: str, entry: Entry, *, owner: Owner, hidden: bool) -> None:
    layer.seen.add(entry.number)
    whole = layer.measure.member(entry.number) if layer.measure is not None else None
    layer.pulled += whole or 0
    if not stat.S_ISREG(entry.mode):
        found.cell(CellKey(layer.number, owner, LINK, "")).add(Part(0, whole, path), 0)
        return
    found.files += 1
    key = CellKey(layer.number, owner, "", "")
    has_device = False
    for kind, arch, pieces, part in _parts(path, entry, layer.objects.get(entry.number), layer.measure, whole):
        key = CellKey(layer.number, owner, kind, arch)
        found.cell(key).add(part, pieces)
        has_device = has_device or kind == DEVICE
    found.device_files += has_device
    _keep_largest(found.largest, (Part(entry.size, whole, path), key), LARGEST)
    if entry.size:
        found.copies[layer.digests.get(entry.number, "")].append((entry.size, path))
    if hidden:
        found.hidden.append((entry.size, whole, path, layer.number))


def _keep_largest[T: (Part, tuple[Part, CellKey])](heap: list[T], item: T, most: int) -> None:
    if len(heap) < most:
        heapq.heappush(heap, item)
    else:
        heapq.heappushpop(heap, item)


def _parts(
    path: str, entry: Entry, item: SharedObject | None, measure: Measure | None, whole: int | None
) -> Iterator[tuple[str, str, int, Part]]:
    """(kind, architecture, number of images, bytes) of the parts of one file, of which ``whole`` bytes are pulled."""
    disk, pull = entry.size, whole
    for arch, count, part in _device(path, entry, item, measure) if item is not None and item.containers else ():
        disk -= part.disk
        pull = pull - (part.pull or 0) if pull is not None else None
        yield DEVICE, arch, count, part
    kind = kind_of(path, is_elf=item is not None)
    arch = loose_arch(path) if kind == DEVICE else ""
    yield kind, arch, 1 if arch else 0, Part(max(0, disk), pull, path)


def _device(path: str, entry: Entry, item: SharedObject, measure: Measure | None) -> Iterator[tuple[str, int, Part]]:
    """(architecture, number of images, their bytes) of the device code in a file."""
    disks: Counter[str] = Counter()
    pulls: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for container in item.containers:
        for image in container.images:
            disks[image.arch] += image.size
            counts[image.arch] += 1
            if measure is not None:
                start = measure.contents[entry.number] + image.offset
                pulls[image.arch] += measure.between(start, start + image.size)
    for arch, disk in disks.items():
        yield arch, counts[arch], Part(disk, pulls[arch] if measure is not None else None, path)


# --- rows -------------------------------------------------------------------------------------------------------------


def contents_of(found: Weighed, targets: Sequence[GpuUse]) -> Contents:
    """The rows of what was divided up."""
    architectures = tuple(_architectures(found, targets))
    unused = {row.arch for row in architectures if not (row.sass or row.jit)} if targets else set()
    duplicates = list(_duplicates(found))
    lost = [row for row in architectures if row.arch in unused]
    return Contents(
        targets=tuple(targets),
        files=found.files,
        disk_bytes=sum(cell.disk for cell in found.cells.values()),
        device_bytes=sum(row.disk_bytes for row in architectures),
        unused_bytes=sum(row.disk_bytes for row in lost) if targets else None,
        unused_pull_bytes=sum(row.pull_bytes or 0 for row in lost) if targets and found.measured else None,
        owners=tuple(_owners(found, unused)),
        kinds=tuple(_kinds(found)),
        architectures=architectures,
        largest=tuple(_largest(found)),
        duplicate_bytes=sum(row.waste_bytes for row in duplicates),
        duplicates=tuple(duplicates[:DUPLICATES]),
        hidden_bytes=sum(row[0] for row in found.hidden),
        hidden=tuple(
            HiddenRow(path=printable(path), layer=found.titles[layer], disk_bytes=disk, pull_bytes=pull)
            for disk, pull, path, layer in sorted(found.hidden, key=lambda row: (-row[0], row[2], row[3]))[:HIDDEN]
        ),
        cells=tuple(_cells(found)),
    )


def _architectures(found: Weighed, targets: Sequence[GpuUse]) -> Iterator[ArchitectureRow]:
    sums: dict[str, Cell] = defaultdict(Cell)
    owners: dict[str, Counter[str]] = defaultdict(Counter)
    for key, cell in found.cells.items():
        if key.kind == DEVICE:
            total = sums[key.arch]
            total.disk, total.pull, total.pieces = (
                total.disk + cell.disk, total.pull + cell.pull, total.pieces + cell.pieces,
            )  # fmt: skip
            owners[key.arch][key.owner.name] += cell.disk
    for arch, total in sorted(sums.items(), key=lambda pair: (-pair[1].disk, pair[0])):
        sass, jit = users_of(arch, targets)
        yield ArchitectureRow(
            arch=printable(arch),
            pieces=total.pieces,
            disk_bytes=total.disk,
            pull_bytes=found.pull(total),
            sass=sass,
            jit=jit,
            owners=dict(owners[arch].most_common()),
        )


def _owners(found: Weighed, unused: set[str]) -> Iterator[OwnerRow]:
    groups: dict[Owner, list[tuple[CellKey, Cell]]] = defaultdict(list)
    for key, cell in found.cells.items():
        groups[key.owner].append((key, cell))
    rows = []
    for owner, cells in groups.items():
        device: Counter[str] = Counter()
        for key, cell in cells:
            if key.kind == DEVICE:
                device[key.arch] += cell.disk
        rows.append(
            OwnerRow(
                kind=owner.kind,
                name=owner.name,
                version=owner.version,
                files=sum(cell.files for key, cell in cells if key.kind != LINK and not _in_fatbin(key)),
                disk_bytes=sum(cell.disk for _, cell in cells),
                pull_bytes=sum(cell.pull for _, cell in cells) if found.measured else None,
                layers=tuple(found.titles[layer] for layer in sorted({key.layer for key, _ in cells})),
                architectures=dict(device.most_common()),
                unused_bytes=sum(size for arch, size in device.items() if arch in unused),
            )
        )
    yield from sorted(rows, key=lambda row: (-row.disk_bytes, row.kind, row.name))


def _in_fatbin(key: CellKey) -> bool:
    """Whether the files of a cell are counted as host code as well."""
    return key.kind == DEVICE and not key.arch.endswith(("(by file name)", "not known"))


def _kinds(found: Weighed) -> Iterator[KindRow]:
    for kind in KINDS:
        cells = [cell for key, cell in found.cells.items() if key.kind == kind]
        if cells:
            yield KindRow(
                kind=kind,
                files=found.device_files if kind == DEVICE else sum(cell.files for cell in cells),
                disk_bytes=sum(cell.disk for cell in cells),
                pull_bytes=sum(cell.pull for cell in cells) if found.measured else None,
            )


def _largest(found: Weighed) -> Iterator[FileRow]:
    for part, key in sorted(found.largest, key=lambda row: (-row[0].disk, row[0].path)):
        yield FileRow(
            path=printable(part.path),
            layer=found.titles[key.layer],
            owner=key.owner.title,
            kind=key.kind,
            disk_bytes=part.disk,
            pull_bytes=part.pull,
        )


def _duplicates(found: Weighed) -> Iterator[DuplicateRow]:
    rows = []
    for digest, copies in found.copies.items():
        if len(copies) > 1 and digest:
            size = copies[0][0]
            rows.append((size * (len(copies) - 1), digest, size, sorted(path for _, path in copies)))
    for waste, digest, size, paths in sorted(rows, key=lambda row: (-row[0], row[1])):
        yield DuplicateRow(
            sha256=urlsafe_b64decode(f"{digest}=").hex(),
            size=size,
            copies=len(paths),
            waste_bytes=waste,
            paths=tuple(map(printable, paths[:PATHS])),
        )


def _cells(found: Weighed) -> Iterator[CellRow]:
    for key, cell in sorted(found.cells.items(), key=lambda pair: (pair[0].layer, -pair[1].disk, pair[0])):
        yield CellRow(
            layer=found.titles[key.layer],
            owner=key.owner.title,
            owner_kind=key.owner.kind,
            kind=key.kind,
            arch=printable(key.arch),
            files=cell.files,
            disk_bytes=cell.disk,
            pull_bytes=found.pull(cell),
        )
