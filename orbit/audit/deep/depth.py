"""The kernel x architecture matrix (``--deep``): what is in the images that each target would load.

Of every container only the images some target loads are unpacked, in worker processes that get them through a pipe
and answer with names and sizes: nothing of the target is mapped, each worker holds one image at a time, and large
images go one after another. A payload that cannot be read is a fact of its image (``problem``), never an error.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import zstandard

from orbit.audit.binary.cubin import Kernel
from orbit.audit.binary.fatbin import Container, Image
from orbit.audit.binary.payload import MAX_IMAGE_BYTES
from orbit.audit.deep.depth_worker import COMPRESSIONS, KINDS, LENGTH, REQUEST, Answer
from orbit.audit.facts import SharedObject
from orbit.audit.known.device import guard_pattern
from orbit.audit.reports.report import DepthLibrary, DepthTarget
from orbit.core.amounts import format_bytes
from orbit.core.console import BYTES, Progress
from orbit.core.proc import own_python, run
from orbit.errors import InputError
from orbit.kernels.capabilities import loads, parse_arch, ptx_loads
from orbit.profile.model import GpuTarget

MAX_FILE_BYTES = 1 << 35
"""Unpacked device code of one file; more is not unpacked (a small file can state any amount)."""
MAX_WORKERS = 8
LARGE_IMAGE_BYTES = 1 << 25
"""Images that unpack to more are all read by one worker, one after another: two at once would need twice the memory."""
PER_IMAGE_BYTES = 200_000
"""What reading one image costs beside unpacking it, in bytes unpacked in the same time; only balances the work."""


class Slices(Protocol):
    """The bytes of a file; a slice is shorter than asked at its end (:class:`orbit.audit.binary.elf.Buffer` is one)."""

    def __getitem__(self, key: slice, /) -> bytes: ...


type OpenBytes = Callable[[str], AbstractContextManager[Slices]]
"""Opens a file of the target by its path; raises OSError."""


@dataclass(frozen=True, slots=True)
class ImageDepth:
    """What is in one image."""

    arch: str
    """As the container says, ``sm_90a`` or ``compute_90``."""
    kind: str
    """``elf`` or ``ptx``."""
    stated: str
    """The architecture by its own content: as :class:`orbit.audit.binary.cubin.DeviceCode` has it."""
    kernels: Mapping[str, Kernel]
    """By name."""
    problem: str
    """Why it could not be read, or empty."""


@dataclass(frozen=True, slots=True)
class ContainerDepth:
    """What each target would load of one container."""

    section: str
    index: int
    loaded: Mapping[str, ImageDepth]
    """By name of the target; a target that can load nothing is not in it. Targets may share an image."""


@dataclass(frozen=True, slots=True)
class FileDepth:
    """The device code of one file that some target would load."""

    path: str
    containers: tuple[ContainerDepth, ...]
    problem: str = ""
    """Why the file was not looked into, or empty."""


@dataclass(frozen=True, slots=True)
class Depth:
    """All of it."""

    targets: tuple[str, ...]
    files: tuple[FileDepth, ...]
    num_images: int
    payload_bytes: int
    """Read from the files."""
    unpacked_bytes: int


def best_image(container: Container, capability: str) -> Image | None:
    """The image that a device of ``capability`` loads: machine code before PTX, the nearest capability, and of one
    capability the arch-specific form before the family's before the plain one. None: nothing it can load."""
    found: tuple[tuple[int, int, int, str], Image] | None = None
    for image in container.images:
        if (rank := _rank(image.arch, capability)) is not None and (found is None or rank > found[0]):
            found = rank, image
    return found[1] if found else None


def _rank(arch: str, capability: str) -> tuple[int, int, int, str] | None:
    try:
        native = loads(arch, capability)
        if not native and not ptx_loads(arch, capability):
            return None
        parsed = parse_arch(arch)
    except InputError:
        return None
    return int(native), parsed.major, parsed.minor, {"": "0", "f": "1", "a": "2"}[parsed.suffix]


@contextlib.contextmanager
def open_below(root: Path, path: str) -> Iterator[Slices]:
    """A regular file below ``root``, read piece by piece: a mapped file would count as our memory. Raises OSError."""
    handle = os.open(root / path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "not a regular file")
        yield _Pieces(handle)
    finally:
        os.close(handle)


class _Pieces:
    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __getitem__(self, key: slice, /) -> bytes:
        start, stop = key.start or 0, key.stop or 0
        parts = []
        while start < stop and (part := os.pread(self._handle, stop - start, start)):
            parts.append(part)
            start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


@dataclass(slots=True)
class _Work:
    """One image to be read, and where its answer goes."""

    path: str
    image: Image
    found: ImageDepth | None = None
    unpacked_bytes: int = 0

    @property
    def bytes(self) -> int:
        return max(self.image.size, self.image.uncompressed_size)

    @property
    def cost(self) -> int:
        return self.bytes + PER_IMAGE_BYTES

    def settle(self, answer: Answer) -> None:
        """Keep what is in the image; each name once, whatever the number of images that have it."""
        kernels = {(name := sys.intern(kernel.name)): kernel._replace(name=name) for kernel in answer.kernels}
        self.found = ImageDepth(self.image.arch, self.image.kind, answer.arch, kernels, answer.problem)
        self.unpacked_bytes = answer.unpacked_bytes

    def fail(self, problem: str) -> None:
        """Note why the image could not be had."""
        self.settle(Answer("", 0, (), problem))


def read_depth(
    root: Path,
    objects: Iterable[SharedObject],
    targets: Iterable[GpuTarget],
    progress: Progress,
    *,
    open_bytes: OpenBytes | None = None,
    order: Callable[[str], Any] = str,
    workers: int | None = None,
) -> Depth:
    """Read what each target would load of every file with device code in ``objects``.

    ``open_bytes`` gives the bytes of a file by its path (default: the file below ``root``), ``order`` the key of a path
    by which each worker goes through the files. Raises
    :class:`orbit.errors.CommandFailed` when a worker process itself breaks.
    """
    targets = tuple(targets)
    opener: OpenBytes = open_bytes or (lambda path: open_below(root, path))
    plans = [_Plan(item, targets) for item in objects if item.containers]
    work = [piece for plan in plans for piece in plan.work.values()]
    count = min(workers or len(os.sched_getaffinity(0)), len(work), MAX_WORKERS) or 1
    total = sum(piece.image.size for piece in work)
    progress.step(f"unpacking {len(work)} images ({format_bytes(total)}) of {len(plans)} files")
    meter = _Meter(progress, total)
    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(_run_worker, part, opener, meter) for part in _balance(work, count, order)]:
            future.result()
    return Depth(
        targets=tuple(target.name for target in targets),
        files=tuple(plan.result() for plan in plans),
        num_images=len(work),
        payload_bytes=total,
        unpacked_bytes=sum(piece.unpacked_bytes for piece in work),
    )


class _Plan:
    """Which images of one file are read."""

    def __init__(self, item: SharedObject, targets: tuple[GpuTarget, ...]) -> None:
        self.item = item
        self.work: dict[int, _Work] = {}
        self.chosen: list[dict[str, Image]] = []
        for container in item.containers:
            chosen = {t.name: image for t in targets if (image := best_image(container, t.capability)) is not None}
            self.chosen.append(chosen)
            for image in chosen.values():
                self.work.setdefault(image.offset, _Work(item.path, image))
        stated = sum(piece.cost for piece in self.work.values())
        self.problem = ""
        if stated > MAX_FILE_BYTES:
            self.problem = f"states {stated} bytes of device code, more than {MAX_FILE_BYTES}"
            self.work = {}

    def result(self) -> FileDepth:
        if self.problem:
            return FileDepth(self.item.path, (), self.problem)
        images = {offset: piece.found for offset, piece in self.work.items() if piece.found}
        containers = tuple(
            ContainerDepth(
                container.section,
                container.index,
                {target: images[image.offset] for target, image in chosen.items()},
            )
            for container, chosen in zip(self.item.containers, self.chosen, strict=True)
        )
        return FileDepth(self.item.path, containers)


def _balance(work: list[_Work], count: int, order: Callable[[str], Any]) -> list[list[_Work]]:
    """Parts of about equal cost, each in the order of the files."""
    parts: list[list[_Work]] = [[] for _ in range(count)]
    load = [0] * count
    for piece in sorted(work, key=lambda piece: -piece.cost):
        least = 0 if piece.bytes > LARGE_IMAGE_BYTES else load.index(min(load))
        parts[least].append(piece)
        load[least] += piece.cost
    for part in parts:
        part.sort(key=lambda piece: (order(piece.path), piece.path, piece.image.offset))
    return [part for part in parts if part]


class _Meter:
    """Counts what was handed to the workers."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def add(self, count: int) -> None:
        self.done += count
        self.progress.advance("reading device code", self.done, self.total, BYTES)


def _run_worker(part: list[_Work], open_bytes: OpenBytes, meter: _Meter) -> None:
    sent: list[_Work] = []
    argv = own_python("orbit.audit.deep.depth_worker")
    out = run(argv, doing="reading device code", stdin=_requests(part, sent, open_bytes, meter)).stdout
    for piece, found in zip(sent, _answers(out), strict=True):
        piece.settle(found)


def _requests(part: list[_Work], sent: list[_Work], open_bytes: OpenBytes, meter: _Meter) -> Iterator[bytes]:
    """The worker's input. Images that cannot be had are answered here, the others noted in ``sent``."""
    yield guard_pattern().encode() + b"\n"
    for path in dict.fromkeys(piece.path for piece in part):
        left = [piece for piece in part if piece.path == path][::-1]
        try:
            with open_bytes(path) as data:
                while left:
                    meter.add(left[-1].image.size)
                    payload = _payload(data, left[-1])
                    piece = left.pop()
                    if piece.found is None:
                        sent.append(piece)
                        yield payload
        except OSError as error:
            for piece in left:
                piece.fail(error.strerror or str(error))


def _payload(data: Slices, piece: _Work) -> bytes:
    image = piece.image
    if piece.bytes > MAX_IMAGE_BYTES:
        piece.fail(f"states {piece.bytes} bytes, more than {MAX_IMAGE_BYTES}")
        return b""
    payload = data[image.offset : image.offset + image.size]
    if len(payload) != image.size:
        piece.fail("the file became shorter while it was read")
        return b""
    kind, compression = KINDS.index(image.kind), COMPRESSIONS.index(image.compression)
    return REQUEST.pack(kind, compression, image.uncompressed_size, len(payload)) + payload


def _answers(packed: bytes) -> Iterator[Answer]:
    decoder = msgspec.msgpack.Decoder(Answer)
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed)) as stream:
        buffered = io.BufferedReader(stream, 1 << 20)
        while head := buffered.read(LENGTH.size):
            yield decoder.decode(buffered.read(LENGTH.unpack(head)[0]))


def depth_rows(depth: Depth, name: Callable[[str], str] = str) -> tuple[DepthLibrary, ...]:
    """The report's rows; ``name`` turns a path into what people know it as (``Environment.in_site``)."""
    return tuple(_row(depth, item, name(item.path)) for item in depth.files)


def _row(depth: Depth, item: FileDepth, name: str) -> DepthLibrary:
    every = {kernel for box in item.containers for image in box.loaded.values() for kernel in image.kernels}
    rows = []
    for target in depth.targets:
        images = [box.loaded[target] for box in item.containers if target in box.loaded]
        mine = {kernel for image in images for kernel in image.kernels}
        rows.append(
            DepthTarget(
                target=target,
                kernels=len(mine),
                stubs=len({k.name for image in images for k in image.kernels.values() if k.stub}),
                missing=len(every) - len(mine),
                code_bytes=sum(kernel.code_bytes for image in images for kernel in image.kernels.values()),
            )
        )
    return DepthLibrary(file=name, kernels=len(every), targets=tuple(rows))
