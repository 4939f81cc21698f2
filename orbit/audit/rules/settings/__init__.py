"""Rules: caches, variables and configuration that fit the content."""

from __future__ import annotations

from types import ModuleType

SETTINGS: tuple[ModuleType, ...] = ()
