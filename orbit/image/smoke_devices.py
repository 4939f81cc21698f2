"""Passing the host's GPUs into an image: device nodes and the driver's libraries, which never belong to an image."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.core import proc

NODE_PATTERNS = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps")
DRIVER = re.compile(r"^lib(cuda|nvidia-(ml|ptxjitcompiler|nvvm|gpucomp|allocator|opticalflow|cfg))\.so(\.|$)")
"""User-space parts of the driver that compute needs; versioned with the kernel module, hence the host's."""
INSIDE = "/run/nvidia-driver"


@dataclass(frozen=True, slots=True)
class Devices:
    """What is passed in; empty for lists that need no GPU."""

    nodes: tuple[str, ...] = ()
    libraries: tuple[tuple[str, str], ...] = ()
    """(file name the loader asks for, file on the host)."""

    def bubblewrap(self) -> list[str]:
        """bubblewrap's words: the nodes as they are, the libraries in a folder of their own."""
        if not self.nodes:
            return []
        words = [word for node in self.nodes for word in ("--dev-bind", node, node)]
        words += ["--tmpfs", "/run"]
        for name, path in self.libraries:
            words += ["--ro-bind", path, f"{INSIDE}/{name}"]
        return words

    def docker(self) -> list[str]:
        """docker's words; its NVIDIA runtime brings the libraries itself."""
        return ["--gpus", "all"] if self.nodes else []

    def env(self, image_env: Mapping[str, str]) -> dict[str, str]:
        """Environment the loader needs to find the libraries, after whatever the image itself puts first."""
        if not self.nodes:
            return {}
        own = image_env.get("LD_LIBRARY_PATH", "")
        return {"LD_LIBRARY_PATH": f"{own}:{INSIDE}" if own else INSIDE}


def host_devices() -> Devices:
    """The GPUs of this machine: nothing when it has none."""
    nodes = tuple(str(path) for pattern in NODE_PATTERNS for path in sorted(Path("/dev").glob(pattern)))
    if not any(re.fullmatch(r"/dev/nvidia\d+", node) for node in nodes):
        return Devices()
    listing = proc.run(["ldconfig", "-p"], doing="looking for the driver's libraries").stdout.decode(errors="replace")
    return Devices(nodes=nodes, libraries=driver_libraries(listing.splitlines()))


def driver_libraries(listing: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The driver's 64-bit libraries in the output of ``ldconfig -p``, the first of each name."""
    found: dict[str, str] = {}
    for line in listing:
        name, arrow, path = line.strip().partition(" => ")
        name, _, kind = name.partition(" ")
        if arrow and "x86-64" in kind and DRIVER.match(name):
            found.setdefault(name, path)
    return tuple(sorted(found.items()))
