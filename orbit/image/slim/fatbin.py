"""Where each entry of a container begins and ends: the audit reads what is in them, here their bytes are moved.

The audit's readers stay the one judge of what a container is; this module measures the extents of what they found.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from orbit.audit.binary.elf import Elf
from orbit.audit.binary.fatbin import (
    CONTAINER,
    ENTRY,
    MIN_ENTRY_HEADER_BYTES,
    Container,
    MalformedFatbin,
    containers_of,
)

SIZE_AT = 8
"""Where in a container's header its size is: eight bytes that do not count the header."""


@dataclass(frozen=True, slots=True)
class Extents:
    """A container and where its parts lie: bytes from the start of the file."""

    container: Container
    end: int
    entries: tuple[tuple[int, int], ...]
    """(start of the header, end of the padded payload) of each image, in order and without gaps."""


def measure(elf: Elf) -> list[Extents]:
    """All containers of a file, in file order. Raises :class:`orbit.audit.binary.elf.MalformedBinary`."""
    found = sorted((_measure(elf, container) for container in containers_of(elf)), key=lambda box: box.container.offset)
    for one, other in itertools.pairwise(found):
        if other.container.offset < one.end:
            raise MalformedFatbin(f"{elf.label}: two fatbin containers overlap at byte {other.container.offset}")
    return found


def _measure(elf: Elf, container: Container) -> Extents:
    head = elf.data[container.offset : container.offset + CONTAINER.size]
    _magic, _version, header_bytes, body_bytes = CONTAINER.unpack(head)
    start, entries = container.offset + header_bytes, []
    end = start + body_bytes
    for image in container.images:
        fields = ENTRY.unpack(elf.data[start : start + MIN_ENTRY_HEADER_BYTES])
        following = start + fields[2] + fields[3]
        if start + fields[2] != image.offset:
            raise MalformedFatbin(f"{elf.label}: the entry at byte {start} is not where its container says")
        entries.append((start, following))
        start = following
    if start != end:
        raise MalformedFatbin(f"{elf.label}: the container at byte {container.offset} ends at {start}, not at {end}")
    return Extents(container, end, tuple(entries))
