"""Which device code a target would load: per container and per file. Pure functions over container facts."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from orbit.audit.binary.fatbin import Container
from orbit.errors import InputError
from orbit.kernels.capabilities import loads, ptx_loads

type Result = Literal["sass", "ptx-jit", "none"]
RESULTS: tuple[Result, ...] = ("sass", "ptx-jit", "none")
RELOCATABLE = "__nv_relfatbin"


@functools.cache
def result_of(archs: frozenset[str], capability: str) -> Result:
    """``sass`` when one architecture runs as it is, ``ptx-jit`` when only PTX can be compiled for it, else ``none``.

    An architecture whose name the capability table cannot read loads nowhere.
    """
    jit = False
    for arch in archs:
        try:
            if arch.startswith("sm_") and loads(arch, capability):
                return "sass"
            jit = jit or (arch.startswith("compute_") and ptx_loads(arch, capability))
        except InputError:
            continue
    return "ptx-jit" if jit else "none"


@functools.cache
def feature_of(archs: frozenset[str], capability: str) -> str:
    """The architecture with a device's own instructions (``sm_90a``, ``sm_100f``) that runs on ``capability``, or
    empty. One with ``a`` covers exactly its own capability."""
    for arch in sorted(archs):
        if arch.startswith("sm_") and arch.endswith(("a", "f")) and result_of(frozenset((arch,)), capability) == "sass":
            return arch
    return ""


def container_archs(container: Container) -> frozenset[str]:
    """The architectures a container has something for."""
    return frozenset(image.arch for image in container.images)


def results_of(containers: Sequence[Container], capability: str) -> list[Result]:
    """What a target gets of each container. Where there is nothing to load (a bare container), nothing is missing.

    Relocatable code (``__nv_relfatbin``) is linked before it is loaded: by nvlink into one container of ``.nv_fatbin``,
    which may compile PTX and intermediate code (``lto_90``) for that; or, where that container has nothing for the
    target, by the driver, which takes machine code and needs no PTX unless a part has nothing else, and then compiles
    for all parts. ``tests/gpu/loading_truth.py`` shows each of these on a device.
    """
    found = ["sass" if box.bare else result_of(container_archs(box), capability) for box in containers]
    loose = [place for place, box in enumerate(containers) if box.section == RELOCATABLE and not box.bare]
    final = [place for place, box in enumerate(containers) if box.section != RELOCATABLE and not box.bare]
    if any(found[place] == "sass" for place in final):
        for place in loose:
            if found[place] == "ptx-jit" or _links(container_archs(containers[place]), capability):
                found[place] = "sass"
        return found
    parts = {found[place] for place in loose} - {"none"}
    if parts:
        together: Result = "ptx-jit" if "ptx-jit" in parts else "sass"
        # of several containers nobody can say which is the linked one
        for place in [place for place in loose if found[place] != "none"] + (final if len(final) == 1 else []):
            found[place] = together
    return found


def _links(archs: frozenset[str], capability: str) -> bool:
    """Whether there is intermediate code that nvlink compiles for a device of ``capability``."""
    code = frozenset(arch.replace("lto_", "compute_") for arch in archs if arch.startswith("lto_"))
    return result_of(code, capability) == "ptx-jit"


def count_results(containers: Sequence[Container], capability: str) -> Counter[Result]:
    """Number of containers by result on one capability."""
    return Counter(results_of(containers, capability))


def file_result(containers: Iterable[Container], capability: str) -> Result:
    """The best result of any container: what a library that dispatches by architecture can offer."""
    return result_of(frozenset(arch for container in containers for arch in container_archs(container)), capability)


def arch_counts(containers: Iterable[Container]) -> dict[str, int]:
    """Number of images by architecture name, sorted by name."""
    counts = Counter(image.arch for container in containers for image in container.images)
    return dict(sorted(counts.items()))


def arch_bytes(containers: Iterable[Container]) -> dict[str, int]:
    """Payload bytes by architecture name, sorted by name."""
    sizes: Counter[str] = Counter()
    for container in containers:
        for image in container.images:
            sizes[image.arch] += image.size
    return dict(sorted(sizes.items()))
