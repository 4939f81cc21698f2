"""CUDA_HOME from wheels: a folder of links shaped like a toolkit, over ``site-packages/nvidia/cuNN``.

The CUDA wheels unpack to ``nvidia/cu13/{bin,include,lib,nvvm}``. Build systems expect ``lib64`` and the unversioned
``lib*.so`` names beside that, which no wheel has. The farm adds them elsewhere and never writes into site-packages, so
RECORD stays true.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from orbit.errors import MissingError, RefusedError

TOOLKIT_NAME = re.compile(r"^cu\d+$")
SHARED_VERSIONED = re.compile(r"^(lib.+\.so)\.[0-9.]+$")
FOLDERS = {"bin": "bin", "include": "include", "lib": "lib64"}
"""Toolkit folders whose entries are linked one by one, and what they are called in the farm."""


def find_toolkit(site: Path) -> Path | None:
    """The toolkit folder inside a site-packages folder (``nvidia/cu13``), or None when no CUDA wheel is installed.

    With several CUDA majors side by side the highest one that has a compiler wins, else the highest.
    """
    base = site / "nvidia"
    if not base.is_dir():
        return None
    found = [path for path in base.iterdir() if TOOLKIT_NAME.match(path.name) and path.is_dir()]
    return max(found, key=lambda path: ((path / "bin" / "nvcc").exists(), int(path.name[2:])), default=None)


def link_farm(site: Path, dest: Path, *, relative: bool) -> Path:
    """Make ``dest`` a CUDA_HOME of links over the toolkit in ``site``; return the toolkit folder it points into.

    ``dest/bin`` and ``dest/include`` and ``dest/lib64`` are real folders of links (so a caller can put another ``nvcc``
    into ``bin``); ``lib`` and ``nvvm`` are links to folders. ``relative`` writes links that survive moving the
    tree that holds both ``site`` and ``dest``. Other wheels' headers (cuDNN, NCCL) are not merged in.

    Raises :class:`MissingError` when ``site`` has no toolkit and :class:`RefusedError` when ``dest`` is not empty.
    """
    toolkit = find_toolkit(site)
    if toolkit is None:
        raise MissingError(
            f"{site}: no CUDA toolkit (nvidia/cu13) in this site-packages folder",
            fix="install nvidia-cuda-nvcc and its companions from the lock: group 'cuda' or extra 'stack'",
        )
    if dest.is_symlink() or (dest.exists() and any(dest.iterdir())):
        raise RefusedError(f"{dest}: not an empty folder", fix="remove it first; a link farm is made afresh")
    for name, farm_name in FOLDERS.items():
        folder = dest / farm_name
        folder.mkdir(parents=True)
        if (toolkit / name).is_dir():
            for entry in sorted((toolkit / name).iterdir()):
                _link(entry, folder / entry.name, relative=relative)
    for name in sorted(path.name for path in (dest / "lib64").iterdir()):
        match = SHARED_VERSIONED.match(name)
        if match:
            plain = dest / "lib64" / match[1]
            plain.unlink(missing_ok=True)
            plain.symlink_to(name)
    (dest / "lib").symlink_to("lib64")
    if (toolkit / "nvvm").is_dir():
        _link(toolkit / "nvvm", dest / "nvvm", relative=relative)
    return toolkit


def _link(target: Path, link: Path, *, relative: bool) -> None:
    absolute = os.path.abspath(target)
    link.symlink_to(os.path.relpath(absolute, os.path.abspath(link.parent)) if relative else absolute)
