"""Parts: several machines share one build, each compiles some steps, their caches merge.

A step of another machine gets a placeholder at once: an empty module, made by the real compiler, so that fatbinary and
the linker go on. All architectures stay on the command lines (macros with their list enter mangled names), so a step
has the same key as in a whole build. What a placeholder went into is never kept in any cache.
"""

from __future__ import annotations

import hashlib

from .places import PROBE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .config import Config

HOST = "host"
"""Stands for an architecture where a unit has none."""
PTX_HEADER = (b".version", b".target", b".address_size")


def is_ours(config: Config, source: str, arch: str) -> bool:
    """Whether this machine compiles ``source`` (as :func:`.places.unit_name` says it) for ``arch`` (empty: host code).

    Probes of build scripts are everybody's. The share depends on nothing but the two names.
    """
    part = config.get("part")
    if part is None or source == PROBE:
        return True
    name = arch or HOST
    if part["archs"] and name not in part["archs"]:
        return False
    digest = hashlib.sha256(f"{source}\0{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % part["count"] == part["index"] - 1


def has_whole(config: Config, source: str) -> bool:
    """Whether this machine compiles every architecture of a unit with device code, so that its host side is real."""
    return all(is_ours(config, source, real) for _, real in config["pairs"])


def archs_of(config: Config, virtual: str) -> list[str]:
    """The real architectures that are made from one virtual one."""
    return [real for name, real in config["pairs"] if name == virtual]


def empty_module(ptx: bytes) -> bytes:
    """The PTX text of an empty module for the same target and version."""
    lines = [line for line in ptx.splitlines() if line.startswith(PTX_HEADER)]
    return b"\n".join([*lines, b""])
