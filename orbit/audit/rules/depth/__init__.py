"""Rules: rules that read device code itself."""

from __future__ import annotations

from types import ModuleType

DEPTH: tuple[ModuleType, ...] = ()
