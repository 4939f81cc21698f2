"""Device code inside host binaries: the fatbin containers of ``.nv_fatbin`` and ``__nv_relfatbin``.

Only headers are read: the payloads (gigabytes) are never touched or decompressed. Layout of a container and of its
entries as measured on CUDA 12 and CUDA 13 wheels and described by public format notes (nvopen-tools,
cuda-fatbin-decompression, fatbinary): a 16-byte container header, then entries back to back, each
``header_size + padded_size`` bytes long, without a terminator. Relocatable device code goes to ``__nv_relfatbin``,
so a reader of ``.nv_fatbin`` alone is blind to it.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from orbit.audit.binary.elf import Buffer, Elf, FileBuffer, MalformedBinary, ReadAt, open_elf, read_at

CONTAINER_MAGIC = 0xBA55ED50
CONTAINER = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQI4xHHI8xQ8xQ")
"""kind, version, header size, padded payload size, compressed size, minor, major, arch, flags, uncompressed size: the
first 64 bytes of every entry, whatever its header size."""
MIN_ENTRY_HEADER_BYTES = 64
HEAD_BYTES = CONTAINER.size + MIN_ENTRY_HEADER_BYTES
SECTIONS = (".nv_fatbin", "__nv_relfatbin")
"""Sections that hold containers and nothing else."""
EMBEDDED = (".ldata", ".lrodata", ".cask_resource")
"""Data sections in which vendor libraries keep further containers among other things (cuFFT nearly all of its kernels,
cuBLASLt and cuDNN some hundreds) and hand them to the driver themselves. cuobjdump does not list these."""
CONTAINER_START = struct.pack("<IHH", 0xBA55ED50, 1, 16)

START = re.compile(re.escape(CONTAINER_START))
NEAR_BYTES = 256
SEARCH_BYTES = 1 << 18
"""Fits the second-level cache."""

KIND_PTX = 1
KIND_ELF = 2
KIND_IR = 8
KIND_ELF_ALTERNATIVE = 0x10

KINDS = {
    KIND_PTX: ("ptx", "compute"),
    KIND_ELF: ("elf", "sm"),
    KIND_IR: ("ir", "lto"),
    KIND_ELF_ALTERNATIVE: ("elf", "sm"),
}
"""(kind of image, front part of its architecture name) by the number in the entry."""

FLAG_LZ4 = 0x2000
FLAG_ZSTD = 0x8000
FLAG_ARCH_SPECIFIC = 0x100000
FLAG_FAMILY = 0x200000
MEANINGFUL = FLAG_LZ4 | FLAG_ZSTD | FLAG_ARCH_SPECIFIC | FLAG_FAMILY


class MalformedFatbin(MalformedBinary):
    """A fatbin section does not hold what the format allows."""


class Image(NamedTuple):
    """One entry of a container: machine code (``elf``), PTX text (``ptx``) or link-time IR for one architecture."""

    kind: str
    """``elf``, ``ptx``, or ``ir`` (input of the device linker: no device loads it)."""
    arch: str
    """``sm_90a``, ``sm_100f``; for PTX ``compute_90``, for link-time IR ``lto_90``."""
    offset: int
    """Of the payload, in bytes from the start of the file."""
    size: int
    """Payload bytes in the file without padding: the compressed size when compressed."""
    uncompressed_size: int
    """Bytes after decompression; 0 when not compressed."""
    compression: str
    """``""``, ``lz4`` or ``zstd``."""
    flags: int
    """The raw flag word."""

    @property
    def compressed(self) -> bool:
        """Whether the payload is compressed."""
        return bool(self.compression)


class Container(msgspec.Struct, frozen=True):
    """One fatbin container: the images of (usually) one translation unit, of which the driver loads one."""

    section: str
    index: int
    """Position in its section, from 0."""
    offset: int
    """Of the container header, in bytes from the start of the file."""
    images: tuple[Image, ...]
    bare: bool = False
    """No image holds code or data (:func:`orbit.audit.binary.bare.mark_bare`): no device can lack anything of it."""


def read_containers(path: Path) -> tuple[Container, ...]:
    """All containers of an ELF file, in file order; empty when it holds no device code.

    Raises :class:`orbit.audit.binary.elf.MalformedBinary` when the file is not a sound ELF file or a container is
    damaged, OSError when it cannot be read.
    """
    with open_elf(path) as elf:
        return tuple(containers_of(elf))


def containers_of(elf: Elf) -> Iterator[Container]:
    """The containers of an open ELF file."""
    for section in elf.sections():
        if section.name in SECTIONS and section.size:
            yield from walk_section(elf.data, section.offset, section.size, section.name, elf.label)
        elif section.name in EMBEDDED and section.size:
            yield from search_section(elf.data, section.offset, section.size, section.name, elf.label)


def walk_section(data: Buffer, start: int, size: int, section: str, label: str) -> Iterator[Container]:
    """The containers in ``size`` bytes at ``start``; ``section`` and ``label`` name them in results and errors."""
    read, position, end, index = read_at(data), start, start + size, 0
    while (position := _skip_padding(read, position, end)) < end:
        if end - position < CONTAINER.size:
            raise _bad(label, section, position, "a container header is cut short")
        magic, _version, header_bytes, body_bytes = CONTAINER.unpack(read(CONTAINER.size, position))
        if magic != CONTAINER_MAGIC:
            raise _bad(label, section, position, f"magic {magic:#010x} instead of {CONTAINER_MAGIC:#010x}")
        if header_bytes < CONTAINER.size:
            raise _bad(label, section, position, f"a container header of {header_bytes} bytes")
        body = position + header_bytes
        if body + body_bytes > end:
            raise _bad(label, section, position, f"a container of {body_bytes} bytes runs past the section")
        images = _images(read, body, body + body_bytes, section, label)
        yield Container(section, index, position, images)
        position = body + body_bytes
        index += 1


def search_section(data: Buffer, start: int, size: int, section: str, label: str) -> Iterator[Container]:
    """The containers among other data. What only looks like one is passed over: nothing promises that it is one."""
    read, position, end, index = read_at(data), start, start + size, 0
    whole = isinstance(data, FileBuffer)  # of what was kept of a stream only pieces of the size asked for are sure
    while (found := _next_start(read, position, end)) is not None:
        position, head = found
        body = position + CONTAINER.size
        if not whole or len(head) < HEAD_BYTES:
            head = read(CONTAINER.size, position)
        try:
            following = body + CONTAINER.unpack(head[: CONTAINER.size])[3]
            if following > end:
                raise _bad(label, section, position, "a container runs past the section")
            images = _images(read, body, following, section, label, first=head[CONTAINER.size :])
        except (MalformedFatbin, struct.error):
            position += len(CONTAINER_START)
            continue
        yield Container(section, index, position, images)
        position, index = following, index + 1


def _next_start(read: ReadAt, position: int, end: int) -> tuple[int, bytes] | None:
    """Where the next container may start, and the bytes from there that came along (at most :data:`HEAD_BYTES`).

    They mostly follow each other closely: the first step is a short one.
    """
    step, overlap = NEAR_BYTES, len(CONTAINER_START) - 1
    while end - position > overlap:
        block = read(min(step, end - position), position)
        found = block.find(CONTAINER_START) if step == NEAR_BYTES else _search(block)
        if found >= 0:
            return position + found, block[found : found + HEAD_BYTES]
        position += max(1, min(step, end - position) - overlap)
        step = SEARCH_BYTES
    return None


def _search(block: bytes) -> int:
    """Like ``block.find(CONTAINER_START)``; in a long block the expression is a fifth quicker."""
    match = START.search(block)
    return match.start() if match else -1


def _images(
    read: ReadAt, position: int, end: int, section: str, label: str, *, first: bytes = b""
) -> tuple[Image, ...]:
    """The images between two positions; ``first`` is the header of the first one when it has been read already."""
    found = []
    while position < end:
        if end - position < MIN_ENTRY_HEADER_BYTES:
            raise _bad(label, section, position, "an entry header is cut short")
        kind, _version, header_bytes, padded_bytes, compressed_bytes, _minor, _major, arch, flags, full_bytes = (
            ENTRY.unpack(first or read(MIN_ENTRY_HEADER_BYTES, position))
        )
        first = b""
        if header_bytes < MIN_ENTRY_HEADER_BYTES:
            raise _bad(label, section, position, f"an entry header of {header_bytes} bytes")
        meaning = _meaning(kind, arch, flags & MEANINGFUL)
        if meaning is None:
            raise _bad(label, section, position, f"entry kind {kind:#x} is not known")
        following = position + header_bytes + padded_bytes
        if following > end:
            raise _bad(label, section, position, f"an entry of {padded_bytes} bytes runs past its container")
        name, arch, compression = meaning
        payload = position + header_bytes
        if not compression:
            found.append(_image(Image, (name, arch, payload, padded_bytes, 0, "", flags)))
        elif compressed_bytes > padded_bytes:
            raise _bad(label, section, position, f"{compressed_bytes} compressed bytes in {padded_bytes}")
        else:
            found.append(_image(Image, (name, arch, payload, compressed_bytes, full_bytes, compression, flags)))
        position = following
    return tuple(found)


_image = tuple.__new__
"""Makes an :class:`Image` of its fields in order; there are fifty thousand in an environment."""


@functools.cache
def _meaning(kind: int, number: int, flags: int) -> tuple[str, str, str] | None:
    """(kind, architecture, compression) of an entry; None for a kind that is not known."""
    if kind not in KINDS:
        return None
    name, code = KINDS[kind]
    compression = "zstd" if flags & FLAG_ZSTD else "lz4" if flags & FLAG_LZ4 else ""
    return name, arch_name(code, number, flags), compression


def arch_name(code: str, number: int, flags: int) -> str:
    """The architecture in NVIDIA's spelling: ``sm_90a``, ``sm_120f``, ``compute_90``; ``code`` is the part in front."""
    suffix = "a" if flags & FLAG_ARCH_SPECIFIC else "f" if flags & FLAG_FAMILY else ""
    return f"{code}_{number}{suffix}"


def _skip_padding(read: ReadAt, position: int, end: int) -> int:
    """The position of the next byte that is not zero (a container starts with 0x50), or ``end``."""
    step = 16
    while position < end:
        block = read(min(step, end - position), position)
        rest = block.lstrip(b"\0")
        if rest or not block:
            return position + len(block) - len(rest) if block else end
        position += len(block)
        step = 65536
    return end


def _bad(label: str, section: str, position: int, what: str) -> MalformedFatbin:
    return MalformedFatbin(f"{label}: {section}, at byte {position}: {what}")
