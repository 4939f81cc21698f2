"""Rules: the files of a target are the files its distributions brought, whole and readable."""

from __future__ import annotations

from types import ModuleType

from orbit.audit.rules.integrity import (
    damaged_binary,
    dangling_link,
    file_conflict,
    hollow_package,
    interpreter_link,
    not_executable,
    record_hash,
    required_artifact,
    shadowed_module,
    unowned_file,
    unreadable,
    wheel_archive,
)

INTEGRITY: tuple[ModuleType, ...] = (
    damaged_binary,
    record_hash,
    file_conflict,
    hollow_package,
    dangling_link,
    interpreter_link,
    unreadable,
    not_executable,
    unowned_file,
    shadowed_module,
    required_artifact,
    wheel_archive,
)
