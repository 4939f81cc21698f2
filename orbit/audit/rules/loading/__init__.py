"""Rules: what the dynamic loader finds, and what it should not find."""

from __future__ import annotations

from types import ModuleType

from orbit.audit.rules.loading import (
    companion_library,
    compat_libcuda,
    driver_library,
    duplicate_library,
    library_mix,
    needs_library,
    run_path,
)

LOADING: tuple[ModuleType, ...] = (
    needs_library,
    duplicate_library,
    library_mix,
    companion_library,
    driver_library,
    compat_libcuda,
    run_path,
)
