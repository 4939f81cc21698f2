"""Put the fronts of :mod:`orbit.kernels.shim` between one build and its compilers."""

from __future__ import annotations

import compileall
import functools
import json
import os
import py_compile
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.core.files import sha256_file
from orbit.core.paths import SOCKET_PATH_BYTES
from orbit.core.proc import run
from orbit.core.records import content_key
from orbit.core.tools import find
from orbit.errors import InputError
from orbit.kernels import shim
from orbit.kernels.shim.arguments import check_pairs
from orbit.kernels.shim.config import Config, Part
from orbit.kernels.shim.places import CONFIG_NAME
from orbit.kernels.shim.program import BUILD_TOOLS, CUDA_TOOLS, HOST_TOOLS

SCRIPT = "orbit-shim.py"
PACKAGE = "orbit_shim"
HOST_PARTS = ("cc1", "cc1plus", "as")
"""Programs behind gcc and g++ that decide about an object."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the fronts are told besides folder and architectures. Without any they only enforce and measure."""

    recipe: str = ""
    """Name by which the job server knows the package."""
    jobs: str = ""
    """Path of the job server's socket; empty: compilers start without asking."""
    inflight: int = 0
    """``-j`` of ninja and make; 0: what the build script says."""
    units: Path | None = None
    """Folder of the unit cache."""
    shared: Path | None = None
    """A second one, read through and written through."""
    wheel_key: str = ""
    """Everything the wheel depends on, as one hash: lets whole objects be reused."""
    part: Part | None = None
    """Compile only this share; the wheel is then of no use, see :mod:`orbit.kernels.shim.parts`."""


def install_fronts(
    root: Path, pairs: Sequence[tuple[str, str]], flags: Sequence[str], log: Path, settings: Settings
) -> Config:
    """Put every front in place below ``root`` (``env``, ``cuda`` are there) and write their settings; returns these.

    CUDA's programs get theirs in ``cuda/bin`` and ``cuda/nvvm/bin``, all others in ``fronts``, which belongs first on
    PATH. Raises :class:`InputError` for a socket whose path is too long, :class:`ShimError` for pairs that cannot be.
    """
    check_pairs(pairs)
    if len(os.fsencode(settings.jobs)) > SOCKET_PATH_BYTES:
        raise InputError(
            f"{settings.jobs}: a Unix socket's path may have {SOCKET_PATH_BYTES} bytes",
            fix="point TMPDIR at a folder with a short path",
        )
    folder = root / "cuda" / "bin"
    script = install_package(folder)
    programs = _programs(root)
    config: Config = {
        "bin": str(folder),
        "root": str(root),
        "pairs": [list(pair) for pair in pairs],
        # all architectures of a unit at once: the last, largest unit would else keep one core busy alone
        "threads": len(pairs),
        "flags": list(flags),
        "log": str(log),
        "programs": {name: str(path) for name, path in programs.items()},
        "prefixes": _prefixes(root),
        "recipe": settings.recipe,
        "jobs": settings.jobs,
        "inflight": settings.inflight,
        "units": str(settings.units or ""),
        "shared": str(settings.shared or ""),
        "identities": _identities(root, programs) if settings.units or settings.shared else {},
    }
    if settings.wheel_key:
        config["wheel_key"] = settings.wheel_key
    if settings.part:
        config["part"] = settings.part
    (folder / CONFIG_NAME).write_text(json.dumps(config, sort_keys=True), encoding="utf-8")
    for tool in CUDA_TOOLS:
        place = (_nvvm(root) if tool == "cicc" else folder) / tool
        if place.is_symlink():
            place.rename(place.with_name(f"{tool}-real"))
            _launcher(place, root, script)
    (root / "fronts").mkdir()
    for tool in programs:
        _launcher(root / "fronts" / tool, root, script)
    return config


def install_package(folder: Path) -> Path:
    """Copy the fronts' package into ``folder``, compiled; the script that runs it."""
    package = folder / PACKAGE
    shutil.copytree(Path(shim.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(package, quiet=1, invalidation_mode=mode, stripdir=folder)
    script = folder / SCRIPT
    place = f"sys.path.insert(0, {str(folder)!r})"
    script.write_text(f"import sys\n\n{place}\nfrom {PACKAGE}.program import main\n\nmain()\n", encoding="utf-8")
    return script


def _launcher(path: Path, root: Path, script: Path) -> None:
    # a shell line and not a shebang: those are limited to 127 bytes on older kernels
    python = root / "env" / "bin" / "python"
    path.write_text(f'#!/bin/sh\nexec "{python}" -I -S -B "{script}" {path.name} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def _nvvm(root: Path) -> Path:
    """``cuda/nvvm`` as a folder of links instead of one link, so that something else can stand in its ``bin``."""
    nvvm = root / "cuda" / "nvvm"
    if nvvm.is_symlink():
        target = Path(os.path.realpath(nvvm))
        nvvm.unlink()
        (nvvm / "bin").mkdir(parents=True)
        for entry in sorted(target.iterdir()):
            if entry.name != "bin":
                (nvvm / entry.name).symlink_to(entry)
        for entry in sorted((target / "bin").iterdir()) if (target / "bin").is_dir() else ():
            (nvvm / "bin" / entry.name).symlink_to(entry)
    return nvvm / "bin"


def _programs(root: Path) -> dict[str, Path]:
    """The real programs behind the fronts outside CUDA_HOME: the host's compilers, the build environment's tools."""
    beside = find("g++").parent
    places: dict[str, tuple[Path, ...]] = dict.fromkeys(HOST_TOOLS, (beside,))
    places |= {name: (root / "env" / "bin", beside, Path("/usr/bin")) for name in BUILD_TOOLS}
    found = {}
    for name, folders in places.items():
        real = next((folder / name for folder in folders if os.access(folder / name, os.X_OK)), None)
        if real:
            found[name] = real
    return found


def _prefixes(root: Path) -> list[list[str]]:
    """Folders of this machine and what stands for them in texts."""
    prefixes = [[f"{root}/", ""], [f"{os.path.realpath(root / 'env')}/", "env/"]]
    if not sys.base_prefix.startswith("/usr"):
        prefixes.append([f"{sys.base_prefix}/", "python/"])
    return prefixes


def _identities(root: Path, programs: Mapping[str, Path]) -> dict[str, str]:
    """What tells one compiler from another, per tool whose steps are cached."""
    cuda = root / "cuda"
    files = {
        "cicc": (cuda / "nvvm" / "bin" / "cicc", *sorted((cuda / "nvvm" / "libdevice").glob("*.bc"))),
        "ptxas": (cuda / "bin" / "ptxas",),
        "cudafe++": (cuda / "bin" / "cudafe++",),
    }
    found = {tool: _digest(paths) for tool, paths in files.items() if paths[0].exists()}
    for name in HOST_TOOLS:
        if name in programs:
            found[name] = _host_identity(programs[name])
    return found


def _host_identity(compiler: Path) -> str:
    asked = [f"-print-prog-name={part}" for part in HOST_PARTS]
    shown = run([compiler, "-dumpfullversion"], doing=f"ask {compiler.name} for its version")
    places = [run([compiler, flag], doing=f"ask {compiler.name} where it is").stdout.decode().strip() for flag in asked]
    parts = [Path(shutil.which(place) or place) for place in places]
    return f"{shown.stdout.decode().strip()} {_digest([compiler, *(path for path in parts if path.exists())])}"


def _digest(paths: Sequence[Path]) -> str:
    return content_key([(path.name, _file_digest(os.path.realpath(path), path.stat().st_mtime_ns)) for path in paths])


@functools.cache
def _file_digest(path: str, _modified: int) -> str:
    return sha256_file(Path(path))
