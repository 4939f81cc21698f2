"""Programs Orbit needs, where they come from and how to get them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from orbit.errors import CommandFailed, InputError, MissingError, OrbitError, RefusedError

INSTALL_HINT = {
    "mmdebstrap": "apt-get install mmdebstrap (Debian or Ubuntu; it makes the image's base root file system)",
    "bwrap": "apt-get install bubblewrap (runs the image's checks without a container engine)",
    "docker": "install a docker engine and start it, or let Orbit use bubblewrap",
    "git": "apt-get install git (Debian or Ubuntu; it reads the sources that recipes pin by commit)",
    "g++": "apt-get install g++ (Debian or Ubuntu; it compiles the host side of CUDA code)",
}

UV_SIGNS = (
    (RefusedError, ("no space left on device", "disk quota exceeded"), "free some room and run the same command again"),
    (
        InputError,
        ("hash mismatch",),
        "a file of the index is not what the lock says: run `uv cache clean`, then again; if it stays, do not trust it",
    ),
    (
        MissingError,
        ("failed to fetch", "error sending request", "dns error", "connection refused", "invalid peer certificate"),
        "check the network and the proxy; behind a TLS-inspecting proxy set SSL_CERT_FILE to its CA bundle",
    ),
)
"""What uv says, which kind of failure it is, and what helps."""


def uv() -> Path:
    """The ``uv`` of the lock, installed beside the running interpreter; else the one on PATH."""
    return beside("uv")


def beside(name: str) -> Path:
    """A program that a locked package installed beside the running interpreter; else the one on PATH."""
    installed = Path(sys.executable).parent / name
    if installed.is_file():
        return installed
    return find(name)


def find(name: str) -> Path:
    """Path of the program ``name``; raises :class:`MissingError` with how to install it."""
    found = shutil.which(name)
    if found is None:
        raise MissingError(f"{name}: program not found on PATH", fix=INSTALL_HINT.get(name, f"install {name}"))
    return Path(found)


def explain_uv(error: CommandFailed) -> OrbitError:
    """The failure of uv as what it is: no network, no room, a wrong file; itself when it is none of these."""
    said = error.tail.lower()
    for kind, signs, fix in UV_SIGNS:
        if any(sign in said for sign in signs):
            return kind(f"{error.what}\n" + "\n".join(f"  | {line}" for line in error.tail.splitlines()[-8:]), fix=fix)
    return error
