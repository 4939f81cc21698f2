"""Passing the host's GPUs into an image: device nodes and the driver's libraries, which never belong to an image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orbit.core import proc
from orbit.errors import MissingError

NODE_PATTERNS = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps")
DRIVER = re.compile(r"^lib(cuda|nvidia-(ml|ptxjitcompiler|nvvm|gpucomp|allocator|opticalflow|cfg))\.so(\.|$)")
"""User-space parts of the driver that compute needs; versioned with the kernel module, hence the host's."""
INSIDE = "/run/nvidia-driver"
LDCONFIG = "sbin/ldconfig"
CACHE = "/etc/ld.so.cache"
WORK = "/run/orbit"


@dataclass(frozen=True, slots=True)
class Devices:
    """What is passed in; empty for lists that need no GPU."""

    nodes: tuple[str, ...] = ()
    libraries: tuple[tuple[str, str], ...] = ()
    """(file name the loader asks for, file on the host)."""
    cache: Path | None = None
    """The loader's cache (``/etc/ld.so.cache``) of the image with these libraries in it; see :func:`with_cache`."""

    def bubblewrap(self) -> list[str]:
        """bubblewrap's words: the nodes as they are, the libraries in a folder of their own."""
        if not self.nodes:
            return []
        words = [word for node in self.nodes for word in ("--dev-bind", node, node)]
        words += ["--tmpfs", "/run"]
        for name, path in self.libraries:
            words += ["--ro-bind", path, f"{INSIDE}/{name}"]
        if self.cache is not None:
            words += ["--ro-bind", str(self.cache), CACHE]
        return words

    def docker(self) -> list[str]:
        """docker's words; its NVIDIA runtime brings the libraries itself."""
        return ["--gpus", "all"] if self.nodes else []

    def podman(self) -> list[str]:
        """podman's words; the host's CDI description brings the libraries (``nvidia-ctk cdi generate``)."""
        return ["--device", "nvidia.com/gpu=all"] if self.nodes else []


def with_cache(devices: Devices, program: Path, root: Path, folder: Path) -> Devices:
    """``devices`` with a loader cache made by the image's own ``ldconfig``, as NVIDIA's container runtime does it.

    The image's entry point closes ``LD_LIBRARY_PATH``, and its files cannot be changed; a cache laid over its own is
    the way left. ``program`` is bubblewrap; ``folder``, empty and the caller's, holds the cache meanwhile.
    Raises :class:`MissingError` for an image without ``ldconfig`` or without a cache to lay it over.
    """
    if not devices.nodes or program.name != "bwrap":
        return devices
    for need in (LDCONFIG, CACHE.lstrip("/")):
        if not (root / need).is_file():
            raise MissingError(f"the image has no /{need}, so the GPU driver cannot be shown to it", fix="use docker")
    (folder / "conf").write_text(f"include /etc/ld.so.conf\n{INSIDE}\n", encoding="ascii")
    words = [str(program), "--ro-bind", str(root), "/", "--proc", "/proc", "--dev", "/dev"]
    words += [*devices.bubblewrap(), "--bind", str(folder), WORK]
    command = [f"/{LDCONFIG}", "-X", "-f", f"{WORK}/conf", "-C", f"{WORK}/ld.so.cache"]
    proc.run([*words, "--", *command], doing="showing the GPU driver to the image's loader", timeout_s=60)
    return replace(devices, cache=folder / "ld.so.cache")


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
