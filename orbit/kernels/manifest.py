"""The build manifest: what was requested, what the compiler was told, what is in the binaries; any difference fails."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from orbit.audit.binary.fatbin import Container
from orbit.core.findings import Finding, error_finding
from orbit.core.records import Record
from orbit.errors import InputError
from orbit.kernels.prebuilt.record import JitProof, Verified
from orbit.kernels.recipe import Recipe
from orbit.kernels.sources import Source

SCHEMA = 1


class Unit(Record, frozen=True, kw_only=True):
    """One call of the compiler: a translation unit, or a device link."""

    kind: str
    """``compile`` or ``link``, both by nvcc, or ``host``: a C++ unit, which has no architectures."""
    sources: tuple[str, ...]
    """Relative to the build folder."""
    requested: tuple[str, ...]
    """``virtual:real`` pairs the package's own build script asked for."""
    effective: tuple[str, ...]
    """Pairs the compiler was given."""
    status: int
    defines: tuple[str, ...] | None = None
    """Macros in force (``NAME`` or ``NAME=value``, without those taken back by ``-U``); None: the log does not say."""


class Binary(Record, frozen=True, kw_only=True):
    """Device code found in one file of the wheel."""

    file: str
    coverage: dict[str, int]
    """How many containers hold exactly these images: ``{"sm_100a+sm_90a": 3}``."""
    images: dict[str, int]
    """How many images there are per architecture, PTX under its ``compute_`` name."""
    glibc: str
    """Newest glibc version the file needs."""


class BuildManifest(Record, frozen=True, kw_only=True):
    """Everything known about how one wheel came to be. Holds no path, time or name of the machine."""

    schema: int = SCHEMA
    recipe: str
    dist: str
    version: str
    source: Source
    mode: str = "source"
    """As in the recipe; in the other modes nothing was requested and no compiler logged anything."""
    verified: Verified | None = None
    """Other modes: what the published wheel was held against."""
    jit: JitProof | None = None
    """Mode ``jit``: what was compiled to prove that it can compile."""
    requested: tuple[str, ...]
    """``virtual:real`` pairs of the profile."""
    units: tuple[Unit, ...]
    """What the compiler shim logged."""
    found: tuple[Binary, ...]
    """Files with device code in the finished wheel."""
    compiler: str
    """Version line of the CUDA compiler."""
    host_compiler: str
    python: str
    group: str
    closure: str
    """Identity of the build environment, see ``orbit.kernels.buildenv.closure_hash``."""
    env: dict[str, str]
    """Variables the recipe set."""
    shim: str
    """sha256 of the compiler shim."""
    linked_units: int = 0
    """Fatbin containers of static libraries, which have architectures of their own; see the recipe."""
    run_paths_removed: dict[str, str] = {}
    """Absolute run paths taken out of binaries: file to number of entries."""
    run_paths_set: dict[str, str] = {}
    """Run path of binaries that were given ways to libraries of other wheels: file to all its entries."""
    wheel: str
    """File name."""
    wheel_sha256: str


def read_units(log: Path) -> tuple[Unit, ...]:
    """The shim's log, sorted so that the order of parallel jobs does not show. Raises :class:`InputError`."""
    units = []
    try:
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        for line in lines:
            entry = json.loads(line)
            if entry.get("kind", "") not in ("", "compile", "link", "host"):
                continue  # steps inside a unit, what a build script tried, the cache
            if "error" in entry:
                raise InputError(
                    f"the compiler shim refused a call: {entry['error']}",
                    fix="the package's build asks for something one command cannot give for all targets; see its log",
                )
            units.append(
                Unit(
                    kind=entry["kind"],
                    sources=tuple(entry["sources"]),
                    requested=tuple(entry["requested"]) if entry["kind"] != "host" else (),
                    effective=tuple(entry["effective"]) if entry["kind"] != "host" else (),
                    status=entry["status"],
                    defines=tuple(entry["defines"]) if "defines" in entry else None,
                )
            )
    except (ValueError, KeyError) as error:
        raise InputError(f"{log}: not a log of the compiler shim: {error}") from None
    return tuple(sorted(units, key=lambda unit: (unit.kind, unit.sources, unit.requested, unit.defines or ())))


def summarise(file: str, containers: Sequence[Container], glibc: str) -> Binary:
    """What is in the containers of one file."""
    names = [sorted(image.arch for image in container.images) for container in containers]
    return Binary(
        file=file,
        coverage=dict(sorted(Counter("+".join(archs) for archs in names).items())),
        images=dict(sorted(Counter(arch for archs in names for arch in archs).items())),
        glibc=glibc,
    )


def check(manifest: BuildManifest, recipe: Recipe) -> tuple[Finding, ...]:
    """Compare requested, compiled and found. An empty result means that all three agree."""
    return (*_compiled(manifest), *_found(manifest, recipe))


def _compiled(manifest: BuildManifest) -> Iterator[Finding]:
    wanted = tuple(f"arch={pair.replace(':', ',code=')}" for pair in manifest.requested)
    for unit in manifest.units:
        if unit.kind != "host" and unit.status == 0 and unit.effective != wanted:
            yield error_finding(
                "kernel-compiled",
                f"{manifest.recipe}: {', '.join(unit.sources)}",
                "was not compiled for the architectures of the profile",
                {"requested": " ".join(wanted), "compiled": " ".join(unit.effective)},
                "the call bypassed the shim: make the package use CUDA_HOME/bin/nvcc",
            )


def _found(manifest: BuildManifest, recipe: Recipe) -> Iterator[Finding]:
    wanted = "+".join(sorted(pair.partition(":")[2] for pair in manifest.requested))
    strange = [(binary, archs) for binary in manifest.found for archs in binary.coverage if archs != wanted]
    linked = sum(binary.coverage[archs] for binary, archs in strange)
    # static libraries bring what their authors compiled: so many containers as the recipe says, not one more
    if linked != recipe.linked_units:
        for binary, archs in strange:
            yield error_finding(
                "kernel-found",
                f"{manifest.recipe}: {binary.file}",
                f"{binary.coverage[archs]} fatbin containers hold other architectures than the profile's",
                {"requested": wanted, "found": archs or "nothing"},
                "see build.log beside the wheel for the command line of each translation unit",
            )
    containers = sum(sum(binary.coverage.values()) for binary in manifest.found)
    if containers != recipe.device_units + recipe.linked_units:
        says = str(recipe.device_units) + (f" and {recipe.linked_units} linked in" if recipe.linked_units else "")
        yield error_finding(
            "kernel-units",
            manifest.recipe,
            f"{containers} fatbin containers in the wheel, the recipe says {says}",
            {"compiled": str(sum(unit.kind == "compile" for unit in manifest.units)), "found": str(containers)},
            "if upstream changed its sources on purpose, change device_units in the recipe; else kernels were dropped",
        )
