"""Rules: rules that read device code itself (``--deep``): ``check(env, policy, depth)``."""

from __future__ import annotations

from types import ModuleType

from orbit.audit.rules.depth import (
    arch_guard,
    device_code,
    kernel_missing,
    kernel_stub,
)

DEPTH: tuple[ModuleType, ...] = (device_code, kernel_missing, arch_guard, kernel_stub)
