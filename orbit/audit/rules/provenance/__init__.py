"""Rules: what is installed is what the lock says, from where it says."""

from __future__ import annotations

from types import ModuleType

PROVENANCE: tuple[ModuleType, ...] = ()
