"""Rules: what is installed is what the lock says, from where it says."""

from __future__ import annotations

from types import ModuleType

from orbit.audit.rules.provenance import (
    duplicate_distribution,
    editable,
    family,
    lock_drift,
    look_alike,
    path_collision,
    path_file,
    python_floor,
    requirement,
    source_drift,
)

PROVENANCE: tuple[ModuleType, ...] = (
    lock_drift,
    duplicate_distribution,
    requirement,
    family,
    python_floor,
    look_alike,
    source_drift,
    editable,
    path_collision,
    path_file,
)
