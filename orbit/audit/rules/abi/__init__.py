"""Rules: symbols, versions and tags that two sides of a call must agree on."""

from __future__ import annotations

from types import ModuleType

from orbit.audit.rules.abi import (
    cxx11_abi,
    foreign_extension,
    stable_abi,
    symbol_version,
    undefined_symbol,
    wheel_tag,
)

ABI: tuple[ModuleType, ...] = (symbol_version, cxx11_abi, undefined_symbol, foreign_extension, stable_abi, wheel_tag)
