"""The answer of ``orbit lock diff``: two sides, the changes between them, and what follows. Its schema is published."""

from __future__ import annotations

from typing import Literal

from orbit.core.records import Record

Weight = Literal["stops", "rebuild", "check", "note"]
"""The heaviest first. ``stops``: something that worked does not start or gives wrong answers until a person has acted.
``rebuild``: done again by the pipeline. ``check``: works, and has to be looked at before a long run."""
WEIGHTS: tuple[Weight, ...] = ("stops", "rebuild", "check", "note")
Kind = Literal["added", "removed", "renamed", "moved", "replaced"]
"""``moved``: another version. ``replaced``: the same version from another place or of other bytes."""


class Side(Record, frozen=True, kw_only=True):
    """One of the two locks."""

    label: str
    """What was asked for: a profile's name or a path."""
    profile: str
    """The profile it was read for: its extras, targets and kernels."""
    lock_sha256: str
    packages: int
    """Distributions that are installed."""
    download_bytes: int
    python: str
    """``requires-python`` of the lock."""
    cuda: str
    """CUDA release of the runtime in the lock, ``13.0``; empty when it has none."""
    glibc: str
    """Oldest glibc that all wheels run on, by their tags; empty when none has one."""
    targets: tuple[str, ...]
    """``h100 9.0 sm_90a``, in the profile's order."""


class Change(Record, frozen=True, kw_only=True):
    """One package that differs."""

    name: str
    """Its name in the second lock; in the first one when it is gone."""
    was: str = ""
    """Its name in the first lock, when that is another one."""
    kind: Kind
    old: str
    """Version in the first lock; empty when it was not there."""
    new: str
    old_bytes: int
    """Of the file that is downloaded."""
    new_bytes: int
    installed: bool
    """Whether it is in the environment; else it is only what kernels are compiled with."""
    binary: bool
    """Whether a wheel of it is for one platform only, or it is compiled."""
    consequences: tuple[str, ...] = ()
    """Ids of what follows."""

    @property
    def sentence(self) -> str:
        """``torch 2.11.0 -> 2.9.1``."""
        match self.kind:
            case "added":
                return f"{self.name} {self.new} (new)"
            case "removed":
                return f"{self.name} {self.old} (gone)"
            case "replaced":
                return f"{self.name} {self.new} (other bytes)"
            case "renamed":
                return f"{self.was} {self.old} -> {self.name} {self.new}"
            case _:
                return f"{self.name} {self.old} -> {self.new}"


class Consequence(Record, frozen=True, kw_only=True):
    """Something that follows from one change or several."""

    id: str
    weight: Weight
    title: str
    lines: tuple[str, ...]
    """What exactly, one sentence each; empty where the packages say it all."""
    action: str
    """What to do about it."""
    packages: tuple[str, ...]
    """Names of the changes it follows from."""


class LockDiff(Record, frozen=True, kw_only=True):
    """The whole answer."""

    schema: str = "orbit.lock-diff/1"
    a: Side
    b: Side
    equal: bool
    """Nothing that is installed, compiled with or declared differs."""
    unchanged: int
    """Packages that are the same on both sides."""
    fetch_bytes: int
    """What of the second lock's files the first one does not have."""
    changes: tuple[Change, ...]
    """Sorted by name."""
    consequences: tuple[Consequence, ...]
    """The heaviest first."""
