"""Rules: caches, variables and configuration that fit the content."""

from __future__ import annotations

from types import ModuleType

from orbit.audit.rules.settings import (
    baked_variable,
    cache_location,
    image_user,
    shipped_cache,
    shipped_secret,
    variable_conflict,
)

SETTINGS: tuple[ModuleType, ...] = (
    image_user,
    variable_conflict,
    baked_variable,
    cache_location,
    shipped_cache,
    shipped_secret,
)
