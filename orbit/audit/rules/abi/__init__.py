"""Rules: symbols, versions and tags that two sides of a call must agree on."""

from __future__ import annotations

from types import ModuleType

from orbit.audit.rules.abi import (
    foreign_extension,
    symbol_version,
)

ABI: tuple[ModuleType, ...] = (symbol_version, foreign_extension)
