"""CUDA_HOME from wheels: a folder of links shaped like a toolkit, over ``site-packages/nvidia``.

The wheels of CUDA 13 and later unpack into one folder, ``nvidia/cu13/{bin,include,lib,nvvm}``; those of CUDA 11 and 12
into one for each component, ``nvidia/cuda_runtime/{include,lib}``, ``nvidia/cuda_nvcc/{bin,include,nvvm}`` and so on.
Build systems expect one folder with ``lib64`` and the unversioned ``lib*.so`` names beside that, which no wheel has.
The farm has them, elsewhere: nothing is written into site-packages, so RECORD stays true.

The wheels of CUDA 12 hold no nvcc. A toolkit of the host can stand in their place (``toolkit``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from orbit.errors import MissingError, RefusedError

TOOLKIT_NAME = re.compile(r"^cu\d+$")
COMPONENTS = (
    "cublas", "cuda_cccl", "cuda_cupti", "cuda_nvcc", "cuda_nvrtc", "cuda_runtime", "cufft", "cufile", "curand",
    "cusolver", "cusparse", "nvjitlink", "nvtx",
)  # fmt: skip
"""Folders that the wheels of CUDA 11 and 12 unpack into: what is one folder from 13 on."""
FOLDERS = {"bin": "bin", "include": "include", "lib": "lib64", "lib64": "lib64"}
"""Toolkit folders whose entries are linked one by one, and what they are called in the farm."""
SHARED_VERSIONED = re.compile(r"^(lib.+\.so)\.[0-9.]+$")
PACKAGING = frozenset({"__init__.py", "__pycache__"})
"""Entries that make the folders of CUDA 12 importable; no part of a toolkit."""


def toolkit_folders(site: Path) -> tuple[Path, ...]:
    """The folders below ``site/nvidia`` that are a toolkit together; none when no CUDA wheel is installed.

    With several CUDA majors side by side the highest one that has a compiler wins, else the highest; one with a folder
    of its own goes before one in components.
    """
    base = site / "nvidia"
    if not base.is_dir():
        return ()
    whole = [path for path in base.iterdir() if TOOLKIT_NAME.match(path.name) and path.is_dir()]
    if whole:
        return (max(whole, key=lambda path: ((path / "bin" / "nvcc").exists(), int(path.name[2:]))),)
    parts = tuple(base / name for name in COMPONENTS if (base / name).is_dir())
    return parts if base / "cuda_runtime" in parts else ()


def link_farm(site: Path, dest: Path, *, relative: bool, toolkit: Path | None = None) -> tuple[Path, ...]:
    """Make ``dest`` a CUDA_HOME of links over the toolkit in ``site``; return the folders it points into.

    ``dest/bin`` and ``dest/include`` and ``dest/lib64`` are real folders of links (so a caller can put another ``nvcc``
    into ``bin``); ``lib`` and ``nvvm`` are links to folders. ``relative`` writes links that survive moving the
    tree that holds both ``site`` and ``dest``. Other wheels' headers (cuDNN, NCCL) are not merged in. A ``toolkit`` of
    the host takes the place of the one in ``site``.

    Raises :class:`MissingError` when ``site`` has no toolkit and :class:`RefusedError` when ``dest`` is not empty.
    """
    folders = (toolkit,) if toolkit else toolkit_folders(site)
    if not folders:
        raise MissingError(
            f"{site}: no CUDA toolkit (nvidia/cu13, nvidia/cuda_runtime) in this site-packages folder",
            fix="install nvidia-cuda-nvcc and its companions from the lock: group 'cuda' or extra 'stack'",
        )
    if dest.is_symlink() or (dest.exists() and any(dest.iterdir())):
        raise RefusedError(f"{dest}: not an empty folder", fix="remove it first; a link farm is made afresh")
    _link_entries(folders, dest, relative=relative)
    for name in sorted(path.name for path in (dest / "lib64").iterdir()):
        match = SHARED_VERSIONED.match(name)
        if match:
            plain = dest / "lib64" / match[1]
            plain.unlink(missing_ok=True)
            plain.symlink_to(name)
    (dest / "lib").symlink_to("lib64")
    nvvm = next((folder / "nvvm" for folder in folders if (folder / "nvvm").is_dir()), None)
    if nvvm is not None:
        _link(nvvm, dest / "nvvm", relative=relative)
    return folders


def _link_entries(folders: Sequence[Path], dest: Path, *, relative: bool) -> None:
    """The entries of every toolkit folder; where two have one name, that of the first."""
    for name, farm_name in FOLDERS.items():
        (dest / farm_name).mkdir(parents=True, exist_ok=True)
        for folder in folders:
            if not (folder / name).is_dir():
                continue
            for entry in sorted((folder / name).iterdir()):
                link = dest / farm_name / entry.name
                if entry.name not in PACKAGING and not os.path.lexists(link):
                    _link(entry, link, relative=relative)


def _link(target: Path, link: Path, *, relative: bool) -> None:
    absolute = os.path.abspath(target)
    link.symlink_to(os.path.relpath(absolute, os.path.abspath(link.parent)) if relative else absolute)
