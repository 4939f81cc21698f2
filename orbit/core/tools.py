"""Programs Orbit needs, where they come from and how to get them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from orbit.errors import MissingError

INSTALL_HINT = {
    "mmdebstrap": "apt-get install mmdebstrap (Debian or Ubuntu; it makes the image's base root file system)",
    "bwrap": "apt-get install bubblewrap (runs the image's checks without a container engine)",
    "docker": "install a docker engine and start it, or let Orbit use bubblewrap",
}


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
