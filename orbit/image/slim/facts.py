"""What slimming knows of one file, before and after: records that go into the evidence as they are.

A :class:`FilePlan` is made by :func:`orbit.image.slim.plan.plan_file` and says of every entry of every fatbin container
whether it stays and why; :func:`orbit.image.slim.plan.apply_plan` carries it out and gives a :class:`SlimmedFile`.
"""

from __future__ import annotations

from typing import Literal

from orbit.core.records import Record
from orbit.errors import RefusedError
from orbit.profile.model import SlimPolicy

SCHEMA = "orbit.image.slim.file/1"

type Reason = Literal["loads", "links", "ptx", "only-others", "unknown", "unused"]
"""Why an entry stays, or (``unused`` alone) goes:

``loads``        a target loads it: machine code as it is, or PTX that the driver compiles for it
``links``        what a device linker may take: link-time code (``lto_90``), and PTX among relocatable code
``ptx``          PTX that no target needs here, kept by policy: insurance for devices nobody declared
``only-others``  no entry of its container serves any target; the container is left as it is, or keeps its smallest
``unknown``      its architecture has a name that the loading rules cannot read
``unused``       no target loads it
"""
type Layout = Literal["none", "holes", "shrink"]
"""How freed bytes leave a file: not at all; zeros in place (a sparse file, nothing to compress); out of the file."""


class EntryPlan(Record, frozen=True, kw_only=True):
    """One entry of a container."""

    arch: str
    """``sm_90a``, ``compute_90``, ``lto_90``."""
    offset: int
    """Of its header, in bytes from the start of the original file."""
    size: int
    """Bytes with header and padding."""
    keep: bool
    reason: Reason


class ContainerPlan(Record, frozen=True, kw_only=True):
    """One fatbin container."""

    section: str
    index: int
    """Position in its section, from 0."""
    offset: int
    """Of its header, in bytes from the start of the original file."""
    size: int
    """Bytes with its header."""
    entries: tuple[EntryPlan, ...]

    @property
    def removed_bytes(self) -> int:
        """Bytes of the entries that go."""
        return sum(entry.size for entry in self.entries if not entry.keep)


class ArchBytes(Record, frozen=True, kw_only=True):
    """Entries of one architecture that share a verdict."""

    arch: str
    keep: bool
    reason: Reason
    entries: int
    bytes: int


class FilePlan(Record, frozen=True, kw_only=True):
    """What is to become of one file."""

    schema: str = SCHEMA
    path: str
    """As the caller names it: relative to site-packages or to the environment."""
    sha256: str
    """Hex, of the original; empty for a file without device code, which nobody needs to hash."""
    size: int
    targets: tuple[str, ...]
    """Compute capabilities, ``("9.0", "10.0")``."""
    policy: SlimPolicy
    containers: tuple[ContainerPlan, ...] = ()
    layout: Layout = "none"
    new_size: int
    """Bytes of the file afterwards; equal to ``size`` for ``holes`` and ``none``."""
    why_not: str = ""
    """Why nothing is done (``layout`` is ``none``), or why the file keeps its length (``holes``); else empty."""

    @property
    def removed_bytes(self) -> int:
        """Bytes of all entries that go."""
        return sum(container.removed_bytes for container in self.containers) if self.layout != "none" else 0

    @property
    def removed_entries(self) -> int:
        """Number of entries that go."""
        if self.layout == "none":
            return 0
        return sum(not entry.keep for container in self.containers for entry in container.entries)

    def by_arch(self) -> tuple[ArchBytes, ...]:
        """Entries and bytes by architecture, verdict and reason, in that order."""
        found: dict[tuple[str, bool, Reason], list[int]] = {}
        for container in self.containers:
            for entry in container.entries:
                found.setdefault((entry.arch, entry.keep, entry.reason), []).append(entry.size)
        return tuple(
            ArchBytes(arch=arch, keep=keep, reason=reason, entries=len(sizes), bytes=sum(sizes))
            for (arch, keep, reason), sizes in sorted(found.items())
        )


class SlimmedFile(Record, frozen=True, kw_only=True):
    """What was written for a plan."""

    path: str
    original_sha256: str
    sha256: str
    """Hex, of the file written."""
    original_size: int
    size: int
    disk_bytes: int
    """Room it takes on this file system: less than ``size`` where holes were left."""
    layout: Layout
    removed_entries: int
    removed_bytes: int


class SlimRefused(RefusedError):
    """A file is not what a plan was made of, or what was written does not hold what the plan promised."""
