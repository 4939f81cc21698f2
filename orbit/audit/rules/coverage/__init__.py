"""Rules: device code, or what makes it at run time, for every target."""

from __future__ import annotations

from types import ModuleType

from orbit.audit.rules.coverage import (
    arch_coverage,
    arch_feature,
    build_manifest,
    jit_toolchain,
)

COVERAGE: tuple[ModuleType, ...] = (arch_coverage, arch_feature, build_manifest, jit_toolchain)
