"""Which families of instructions the images of a wheel hold: what can be proved of device code without the device.

An instruction is 16 bytes and its operation the low 9 bits of it, so all code of an image is counted at the speed of a
dictionary. What the numbers mean was read off nvdisasm, and is checked against it again on some images of each wheel
where that program is at hand. The numbers are data: ``kernels/expectations/instructions.toml``.
"""

from __future__ import annotations

import functools
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from orbit.audit.binary.elf import Elf
from orbit.audit.binary.fatbin import Image
from orbit.audit.binary.payload import MAX_IMAGE_BYTES, unpack
from orbit.audit.deep.depth import OpenBytes, Slices
from orbit.audit.deep.depth_worker import COMPRESSIONS, KINDS, REQUEST
from orbit.audit.facts import SharedObject
from orbit.core.paths import data_file
from orbit.core.proc import own_python, run, stream
from orbit.core.records import Record, load_toml
from orbit.errors import InputError
from orbit.kernels.capabilities import parse_arch

INSTRUCTION_BYTES = 16
TEXT_SECTION = ".text."
HIGH_BIT = bytes(byte & 1 for byte in range(256))
MNEMONIC = re.compile(rb"^\s+/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)", re.MULTILINE)
CHECK_BYTES = 1 << 19
"""nvdisasm takes about a second for a megabyte: larger images are not used to check the count."""
PER_IMAGE_BYTES = 50_000
"""What an image costs beside its size, in bytes; only balances the work."""


class Family(Record, frozen=True, kw_only=True):
    """Instructions with one purpose."""

    name: str
    title: str
    majors: tuple[int, ...]
    """First numbers of the capabilities that have them."""
    operations: dict[str, int]
    """Low 9 bits of the instruction by mnemonic."""


class Families(Record, frozen=True, kw_only=True):
    """``kernels/expectations/instructions.toml``."""

    schema: int
    families: tuple[Family, ...]


class InstructionRow(Record, frozen=True, kw_only=True):
    """The machine code of one file for one architecture."""

    file: str
    arch: str
    images: int
    instructions: int
    families: dict[str, int]
    """Number of instructions by family; families that have none are not in it."""
    images_with: dict[str, int]
    """Number of images that have any of a family."""
    problems: tuple[str, ...] = ()
    """Images that could not be read, and where a disassembler counts otherwise."""
    checked: int = 0
    """Images on which nvdisasm counted the same."""


@functools.cache
def load_families() -> tuple[Family, ...]:
    """The table of families. Raises :class:`InputError` naming file and key."""
    path = data_file("kernels", "expectations", "instructions.toml")
    found = load_toml(path, Families)
    if found.schema != 1:
        raise InputError(f"{path}: schema {found.schema} is not known", fix="this version of orbit reads schema 1")
    return found.families


def families_of(arch: str) -> tuple[Family, ...]:
    """The families that code for ``arch`` can have; none for an architecture whose name cannot be read."""
    try:
        major = parse_arch(arch).major
    except InputError:
        return ()
    return tuple(family for family in load_families() if major in family.majors)


def operations(cubin: bytes, label: str = "") -> Counter[int]:
    """How often each operation (9 bits) is in the code of a cubin. Raises MalformedElf for what is none."""
    found: Counter[int] = Counter()
    for section in Elf(cubin, label).sections():
        if section.name.startswith(TEXT_SECTION):
            code = cubin[section.offset : section.offset + section.size // INSTRUCTION_BYTES * INSTRUCTION_BYTES]
            pairs = Counter(
                zip(code[0::INSTRUCTION_BYTES], code[1::INSTRUCTION_BYTES].translate(HIGH_BIT), strict=True)
            )
            for (low, high), count in pairs.items():
                found[low | high << 8] += count
    return found


def by_family(counts: Mapping[int, int], arch: str) -> dict[str, int]:
    """The families in ``counts`` of :func:`operations`."""
    found = {
        family.name: sum(counts.get(number, 0) for number in set(family.operations.values()))
        for family in families_of(arch)
    }
    return {name: count for name, count in found.items() if count}


def disassembled(cubin: bytes, arch: str, nvdisasm: Path) -> dict[str, int]:
    """The families in a cubin as nvdisasm lists them. Raises :class:`orbit.errors.CommandFailed`."""
    names = {name: family.name for family in families_of(arch) for name in family.operations}
    found: Counter[str] = Counter()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        rest = b""
        for piece in stream([nvdisasm, "-c", "-ndf", file.name], doing="disassemble an image"):
            lines, _, rest = (rest + piece).rpartition(b"\n")
            found.update(names[name] for name in map(bytes.decode, MNEMONIC.findall(lines)) if name in names)
    return dict(found)


# --- a whole wheel ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Row:
    """What adds up for one file and architecture."""

    images: list[Image] = field(default_factory=list)
    instructions: int = 0
    families: Counter[str] = field(default_factory=Counter)
    images_with: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    checked: int = 0


class Counted(msgspec.Struct, array_like=True, frozen=True):
    """A worker's answer for one image."""

    operations: dict[int, int]
    problem: str


def count_instructions(
    objects: Iterable[SharedObject],
    archs: Sequence[str],
    open_bytes: OpenBytes,
    *,
    nvdisasm: Path | None = None,
    workers: int = 2,
) -> tuple[InstructionRow, ...]:
    """The instruction families of all machine code for ``archs`` in ``objects``, by file and architecture.

    Worker processes get the images through pipes, one at a time each. With ``nvdisasm`` the largest image of at most
    :data:`CHECK_BYTES` of each row is disassembled as well, and a difference is a problem of the row.
    """
    rows: dict[tuple[str, str], _Row] = defaultdict(_Row)
    work: list[tuple[str, Image]] = []
    for item in objects:
        for image in (image for box in item.containers for image in box.images):
            if image.kind == "elf" and image.arch in archs:
                rows[item.path, image.arch].images.append(image)
                work.append((item.path, image))
    parts = _balance(work, workers)
    with ThreadPoolExecutor(max(len(parts), 1)) as pool:
        for part, answers in zip(parts, pool.map(lambda part: _count(part, open_bytes), parts), strict=True):
            for (path, image), answer in zip(part, answers, strict=True):
                _add(rows[path, image.arch], image.arch, answer)
    if nvdisasm is not None:
        for path in dict.fromkeys(path for path, _arch in rows):
            _check(path, {arch: row for (where, arch), row in rows.items() if where == path}, open_bytes, nvdisasm)
    return tuple(
        InstructionRow(
            file=path,
            arch=arch,
            images=len(row.images),
            instructions=row.instructions,
            families=dict(sorted(row.families.items())),
            images_with=dict(sorted(row.images_with.items())),
            problems=tuple(row.problems),
            checked=row.checked,
        )
        for (path, arch), row in sorted(rows.items())
    )


def _balance(work: Sequence[tuple[str, Image]], workers: int) -> list[list[tuple[str, Image]]]:
    """Parts of about equal cost, each in the order of the files: members of archives are read from front to back."""
    parts: list[list[tuple[str, Image]]] = [[] for _ in range(workers)]
    load = [0] * workers
    for piece in sorted(work, key=lambda piece: -_bytes(piece[1])):
        least = load.index(min(load))
        parts[least].append(piece)
        load[least] += _bytes(piece[1]) + PER_IMAGE_BYTES
    return [sorted(part, key=lambda piece: (piece[0], piece[1].offset)) for part in parts if part]


def _bytes(image: Image) -> int:
    return max(image.size, image.uncompressed_size)


def _count(part: Sequence[tuple[str, Image]], open_bytes: OpenBytes) -> list[Counted]:
    argv = own_python("orbit.kernels.wheels.instructions_worker")
    out = run(argv, doing="counting instructions", stdin=_requests(part, open_bytes)).stdout
    return [msgspec.json.decode(line, type=Counted) for line in out.splitlines()]


def _requests(part: Sequence[tuple[str, Image]], open_bytes: OpenBytes) -> Iterator[bytes]:
    """A worker's input. An image that cannot be had is sent without content: the worker says that it is none."""
    for path in dict.fromkeys(path for path, _image in part):
        images = [image for where, image in part if where == path]
        with open_bytes(path) as data:
            for image in images:
                yield _request(data, image)


def _request(data: Slices, image: Image) -> bytes:
    affordable = _bytes(image) <= MAX_IMAGE_BYTES
    payload = data[image.offset : image.offset + image.size] if affordable else b""
    head = KINDS.index(image.kind), COMPRESSIONS.index(image.compression)
    return REQUEST.pack(*head, image.uncompressed_size, len(payload)) + payload


def _add(row: _Row, arch: str, answer: Counted) -> None:
    found = by_family(answer.operations, arch)
    row.instructions += sum(answer.operations.values())
    row.families.update(found)
    row.images_with.update(dict.fromkeys(found, 1))
    if answer.problem:
        row.problems.append(answer.problem)


def _check(path: str, rows: Mapping[str, _Row], open_bytes: OpenBytes, nvdisasm: Path) -> None:
    """Compare the count of one image of each row with a disassembler's."""
    chosen = [
        (max(small, key=lambda image: (_bytes(image), -image.offset)), row)
        for row in rows.values()
        if (small := [image for image in row.images if _bytes(image) <= CHECK_BYTES])
    ]
    with open_bytes(path) as data:
        for image, row in sorted(chosen, key=lambda item: item[0].offset):
            payload = data[image.offset : image.offset + image.size]
            cubin = unpack(payload, image.compression, image.uncompressed_size, path)
            ours, theirs = by_family(operations(cubin, path), image.arch), disassembled(cubin, image.arch, nvdisasm)
            if ours == theirs:
                row.checked += 1
            else:
                row.problems.append(f"image at byte {image.offset}: nvdisasm counts {theirs}, the table {ours}")
