"""Rules: what the dynamic loader finds, and what it should not find."""

from __future__ import annotations

from types import ModuleType

from orbit.audit.rules.loading import (
    needs_library,
)

LOADING: tuple[ModuleType, ...] = (needs_library,)
