"""Containers of sources without device code: what nvcc makes of C++ that has no kernel in it.

``nvcc`` puts a container into every object file it compiles, for whatever architecture it was told or for its oldest
one. Without a kernel or a variable in it there is nothing that a device could lack, so its architectures say nothing.
Such images are small (872 bytes from CUDA 12, up to 2,256 from CUDA 13 for sm_100a; one with an empty kernel has 2,856
and more), so only small ones are looked into.
"""

from __future__ import annotations

import re

import msgspec

from orbit.audit.binary.elf import MAGIC, Buffer, MalformedBinary
from orbit.audit.binary.fatbin import Container, Image
from orbit.audit.binary.payload import unpack

MAX_BARE_BYTES = 4096
"""Larger images are not looked into."""
CONTENT = {
    "elf": re.compile(rb"\.text\.|\.nv\.global|\.nv\.constant"),
    "ptx": re.compile(rb"\.(?:entry|func|global|const)\b"),
}
"""What names code or data: section names of a cubin, directives of PTX."""


def mark_bare(container: Container, data: Buffer) -> Container:
    """``container``, with ``bare`` set when no image of it holds code or data."""
    if container.images and all(_is_bare(image, data) for image in container.images):
        return msgspec.structs.replace(container, bare=True)
    return container


def _is_bare(image: Image, data: Buffer) -> bool:
    size = image.uncompressed_size if image.compressed else image.size
    if image.kind not in CONTENT or max(size, image.size) > MAX_BARE_BYTES:
        return False
    try:
        content = unpack(bytes(data[image.offset : image.offset + image.size]), image.compression, size, "")
    except MalformedBinary:
        return False
    states_itself = content.startswith(MAGIC) if image.kind == "elf" else b".target" in content
    return states_itself and CONTENT[image.kind].search(content) is None
