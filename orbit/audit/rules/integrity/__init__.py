"""Rules: the files of a target are the files its distributions brought, whole and readable."""

from __future__ import annotations

from types import ModuleType

from orbit.audit.rules.integrity import (
    damaged_binary,
    dangling_link,
    file_conflict,
    hollow_package,
    record_hash,
    unreadable,
)

INTEGRITY: tuple[ModuleType, ...] = (
    damaged_binary,
    record_hash,
    file_conflict,
    hollow_package,
    dangling_link,
    unreadable,
)
