"""Features a recipe asserts: what a build script can leave out without a word must be in the finished wheel.

A missing header or library, or one variable, makes some ``setup.py`` files drop kernels, or compile slower ones, and
go on. Containers and architectures look right then; only names tell. Pure: facts in, findings out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from orbit.core.findings import Finding, Severity
from orbit.kernels.manifest import Unit
from orbit.kernels.recipe import Feature, Recipe

RULE = "kernel-feature"


def check_features(
    recipe: Recipe,
    units: Sequence[Unit],
    exports: Collection[str],
    kernels: Mapping[str, Collection[str]],
) -> tuple[Finding, ...]:
    """One finding for every assertion of ``recipe.features`` that the build does not prove.

    ``units`` are the calls that the shim logged, of nvcc and of the C++ compiler. ``exports`` are names of dynamic
    symbols of all binaries of the wheel, ``kernels`` names of kernels by architecture, with a key for every
    architecture that was asked for (``{"sm_90a": {"_Z3addv"}, "sm_100a": {"_Z3addv"}}``); both mangled. See
    :mod:`orbit.kernels.symbols`.

    What cannot be seen is not proved: no successful compilation, or calls without their macros in the log, are findings
    where macros are forbidden.
    """
    compiled = [unit for unit in units if unit.kind in {"compile", "host"} and unit.status == 0]
    return tuple(
        Finding(
            rule=RULE,
            severity=Severity.ERROR,
            subject=f"{recipe.name}: {feature.name}",
            message=message,
            evidence=evidence,
            fix=f"{feature.reason}; the build's log says what the build script did not find",
        )
        for feature in recipe.features
        for message, evidence in (
            *_symbols(feature, exports, kernels),
            *_units(feature, compiled),
            *_defines(feature, compiled),
        )
    )


Failure = tuple[str, dict[str, str]]
"""(message, evidence)."""


def _symbols(feature: Feature, exports: Collection[str], kernels: Mapping[str, Collection[str]]) -> Iterator[Failure]:
    for pattern in feature.symbols:
        without = [arch for arch, names in kernels.items() if not _matches(names, pattern)]
        # the host side of a kernel is exported under the same name, so an export proves something only where no
        # architecture has such a kernel: then the pattern means a host function
        if without and len(without) < len(kernels):
            yield (
                f"no kernel of {', '.join(without)} matches {pattern}, though others have one",
                {"kernels": ", ".join(f"{arch} {len(names)}" for arch, names in kernels.items())},
            )
        elif len(without) == len(kernels) and not _matches(exports, pattern):
            yield (
                f"no kernel and no dynamic symbol of the wheel matches {pattern}",
                {
                    "kernels": ", ".join(f"{arch} {len(names)}" for arch, names in kernels.items()),
                    "symbols": str(len(exports)),
                },
            )


def _units(feature: Feature, compiled: Sequence[Unit]) -> Iterator[Failure]:
    sources = [source for unit in compiled for source in unit.sources]
    for pattern in feature.units:
        if not any(fnmatchcase(source, pattern) or fnmatchcase(source, f"*/{pattern}") for source in sources):
            yield f"{pattern} was not compiled", {"compiled": ", ".join(sorted(sources)) or "nothing"}


def _defines(feature: Feature, compiled: Sequence[Unit]) -> Iterator[Failure]:
    if not feature.forbidden_defines:
        return
    unseen = [unit for unit in compiled if unit.defines is None]
    if unseen or not compiled:
        yield (
            "nobody knows which macros the compiler was given",
            {"calls": str(len(compiled)), "calls without their macros in the log": str(len(unseen))},
        )
    for macro in feature.forbidden_defines:
        guilty = sorted(
            source
            for unit in compiled
            if any(define.partition("=")[0] == macro for define in unit.defines or ())
            for source in unit.sources
        )
        if guilty:
            yield f"{macro} was defined", {"sources": ", ".join(guilty)}


def _matches(names: Collection[str], pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)
