"""Names in the binaries of a wheel: dynamic symbols, and kernels by architecture; mangled, as the linker has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.audit.binary.cubin import read_cubin
from orbit.audit.binary.dynamic import read_exports
from orbit.audit.binary.elf import Elf, open_elf
from orbit.audit.binary.fatbin import containers_of
from orbit.audit.binary.payload import unpack
from orbit.kernels.wheels.archive import elf_names

RELOCATABLE = "__nv_relfatbin"


@dataclass(frozen=True, slots=True)
class WheelSymbols:
    """What the binaries of one wheel offer by name."""

    exports: frozenset[str]
    """Defined dynamic symbols of all binaries together."""
    kernels: dict[str, frozenset[str]]
    """Kernels that the driver can load, by architecture: those that were asked for, also without a kernel."""


def wheel_symbols(tree: Path, archs: Sequence[str]) -> WheelSymbols:
    """Read every binary below ``tree``. ``archs`` are those asked for: ``("sm_90a", "sm_100a")``.

    Relocatable device code (section ``__nv_relfatbin``) does not count: the driver loads what the device link made of
    it, and a kernel that got lost on the way is in the one and not in the other. Nor do other architectures: static
    libraries such as NVSHMEM's bring theirs along. Raises :class:`orbit.audit.binary.elf.MalformedBinary` for damaged
    content.
    """
    exports: set[str] = set()
    kernels: dict[str, set[str]] = {arch: set() for arch in archs}
    for name in elf_names(tree):
        with open_elf(tree / name, name) as elf:
            exports.update(export.name for export in read_exports(elf))
            _kernels(elf, kernels)
    return WheelSymbols(frozenset(exports), {arch: frozenset(names) for arch, names in kernels.items()})


def _kernels(elf: Elf, found: dict[str, set[str]]) -> None:
    for container in containers_of(elf):
        for image in container.images:
            if image.kind != "elf" or image.arch not in found or container.section == RELOCATABLE:
                continue
            payload = elf.data[image.offset : image.offset + image.size]
            label = f"{elf.label}: {container.section} container {container.index} {image.arch}"
            content = unpack(payload, image.compression, image.uncompressed_size, label)
            found[image.arch].update(kernel.name for kernel in read_cubin(content, label).kernels)
