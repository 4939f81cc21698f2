"""Which device code runs where: architecture names, the capability table and the driver's loading rules.

Rules (CUDA C++ Programming Guide, "Binary Compatibility" and "Family-specific features"; ``ptxas --help`` of 13.0):

* ``sm_XY`` runs on capability X.Z with Z >= Y, not across the border between system-on-chip devices and others;
* ``sm_XYa`` runs on X.Y alone;
* ``sm_XYf`` runs on members of X.Y's family with capability >= X.Y;
* ``compute_XY`` (PTX) is compiled by the driver on any capability >= X.Y; with a suffix only where the suffix allows.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal

from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.errors import InputError

NAME = re.compile(r"^(?P<code>sm|compute|lto)_(?P<major>\d+)(?P<minor>\d)(?P<suffix>[af]?)$")
VERSION = re.compile(r"^\d+\.\d+$")


class Capability(Record, frozen=True, kw_only=True):
    """One compute capability of ``kernels/capabilities.toml``."""

    capability: str
    """``major.minor``."""
    generation: str
    """Marketing name of the microarchitecture."""
    devices: tuple[str, ...]
    """Products that have it."""
    base: str
    """First CUDA release that compiles ``sm_XY``."""
    a: str = ""
    """First CUDA release that compiles ``sm_XYa``; empty when there is none."""
    f: str = ""
    """First CUDA release that compiles ``sm_XYf``; empty when there is none."""
    until: str = ""
    """First CUDA release that no longer compiles for it; empty while it is supported."""
    family: str = ""
    """Members of one family share this name."""
    tegra: bool = False
    """System-on-chip device: no machine code in common with the other devices of its major."""


class CapabilityTable(Record, frozen=True, kw_only=True):
    """All of ``kernels/capabilities.toml``."""

    schema: int
    capabilities: tuple[Capability, ...]

    def find(self, capability: str) -> Capability | None:
        """The row of ``major.minor``, or None."""
        return next((row for row in self.capabilities if row.capability == capability), None)


@dataclass(frozen=True, slots=True)
class Arch:
    """A parsed architecture name."""

    code: Literal["sm", "compute", "lto"]
    """``sm`` machine code, ``compute`` PTX, ``lto`` link-time intermediate."""
    major: int
    minor: int
    suffix: Literal["", "a", "f"]

    @property
    def capability(self) -> str:
        """``major.minor``."""
        return f"{self.major}.{self.minor}"


@functools.cache
def table() -> CapabilityTable:
    """The shipped table. Raises :class:`InputError` naming file and key when the data is wrong."""
    path = data_file("kernels", "capabilities.toml")
    loaded = load_toml(path, CapabilityTable)
    if loaded.schema != 1:
        raise InputError(f"{path}: schema {loaded.schema} is not known", fix="this version of orbit reads schema 1")
    names = [row.capability for row in loaded.capabilities]
    if len(set(names)) != len(names):
        raise InputError(f"{path}: a capability is listed twice", fix="keep one [[capabilities]] table per capability")
    for row in loaded.capabilities:
        for key in ("capability", "base", "a", "f", "until"):
            value = getattr(row, key)
            if not (VERSION.match(value) or (value == "" and key in ("a", "f", "until"))):
                raise InputError(f"{path}: {row.capability}: {key} = {value!r}", fix='write it as "12.9"')
    return loaded


def parse_arch(name: str) -> Arch:
    """Read ``sm_90a``, ``compute_100`` or ``lto_90``. Raises :class:`InputError` for anything else."""
    match = NAME.match(name)
    if match is None:
        raise InputError(f"{name!r} is not a GPU architecture name", fix="write it as sm_90a or compute_90")
    code, suffix = match["code"], match["suffix"]
    return Arch(code, int(match["major"]), int(match["minor"]), suffix)  # type: ignore[arg-type]


def loads(arch: str, capability: str) -> bool:
    """Whether machine code for ``arch`` (``sm_90a``) is loaded as it is by a device of ``capability`` (``9.0``)."""
    code = parse_arch(arch)
    if code.code != "sm":
        return False
    if code.capability == capability:
        return True
    if code.suffix == "a":
        return False
    device = _pair(capability)
    if device[0] != code.major or device[1] < code.minor:
        return False
    if code.suffix == "f":
        return _same_family(code.capability, capability)
    return not (_is_tegra(code.capability) or _is_tegra(capability))


def ptx_loads(arch: str, capability: str) -> bool:
    """Whether the driver's compiler accepts PTX for ``arch`` (``compute_90``) on a device of ``capability``."""
    code = parse_arch(arch)
    if code.code != "compute":
        return False
    if code.capability == capability:
        return True
    if code.suffix == "a" or _pair(capability) < (code.major, code.minor):
        return False
    return code.suffix == "" or _same_family(code.capability, capability)


def first_cuda(arch: str) -> str:
    """First CUDA release (``12.8``) that compiles for ``arch``. Raises :class:`InputError` when none is known."""
    code = parse_arch(arch)
    row = table().find(code.capability)
    release = "" if row is None else {"": row.base, "a": row.a, "f": row.f}[code.suffix]
    if not release:
        raise InputError(
            f"{arch}: not in kernels/capabilities.toml", fix="correct the name, or add the capability to that table"
        )
    return release


def compiles(arch: str, cuda: str) -> bool:
    """Whether CUDA release ``cuda`` (``13.0``) has a compiler for ``arch``."""
    row = table().find(parse_arch(arch).capability)
    too_new = row is not None and row.until != "" and _pair(cuda) >= _pair(row.until)
    return not too_new and _pair(cuda) >= _pair(first_cuda(arch))


def _pair(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def _is_tegra(capability: str) -> bool:
    row = table().find(capability)
    return row is not None and row.tegra


def _same_family(one: str, other: str) -> bool:
    left, right = table().find(one), table().find(other)
    return left is not None and right is not None and left.family != "" and left.family == right.family
