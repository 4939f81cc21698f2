"""Where the loader and the interpreter look first, and folders of what was compiled at run time."""

from __future__ import annotations

import fnmatch
import itertools
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from orbit.audit.binary.dynamic import read_dynamic
from orbit.audit.binary.elf import open_if_elf
from orbit.doctor.facts import Cached, Lock, Prefix
from orbit.errors import OrbitError

WATCHED = ("libcudnn*.so*", "libnccl.so*", "libcudart.so*", "libcublas*.so*", "libnvrtc*.so*", "libstdc++.so.6",
           "libtorch*.so", "libnvshmem_host.so*", "libmpi.so*")  # fmt: skip
"""Libraries that must come from the environment."""
OWN = ("/usr/local/nvidia/", "/usr/lib/wsl/", "/.singularity.d/")
"""Where platforms mount the driver: no foreign libraries."""
MOST_LIBRARIES = 200
MOST_NAMES = 12


def foreign_libraries(env: Mapping[str, str], prefix: Prefix | None) -> dict[str, tuple[str, ...]]:
    """Folders of LD_LIBRARY_PATH outside of the environment that have what must come from inside."""
    found: dict[str, tuple[str, ...]] = {}
    inside = os.path.realpath(prefix.path) if prefix else ""
    for folder in _folders(env, "LD_LIBRARY_PATH"):
        real = os.path.realpath(folder)
        if f"{real}/".startswith(OWN) or (inside and f"{real}/".startswith(f"{inside}/")):
            continue
        names = [name for name in _names(folder) if any(fnmatch.fnmatchcase(name, each) for each in WATCHED)]
        if names:
            found[folder] = tuple(names[:MOST_NAMES])
    return found


def compat_drivers(env: Mapping[str, str], root: Path) -> tuple[str, ...]:
    """Folders called compat with a libcuda.so.1, on LD_LIBRARY_PATH or in the loader's configuration below ``root``."""
    named = _folders(env, "LD_LIBRARY_PATH")
    try:
        for conf in sorted((root / "etc/ld.so.conf.d").glob("*.conf")):
            named += [line.strip() for line in conf.read_text(errors="replace").splitlines()]
    except OSError:
        pass
    compat = [folder for folder in named if folder.startswith("/") and "compat" in folder.split("/")]
    return tuple(dict.fromkeys(each for each in compat if os.path.exists(os.path.join(each, "libcuda.so.1"))))


def shadowing(env: Mapping[str, str], prefix: Prefix | None) -> dict[str, tuple[str, ...]]:
    """Folders of PYTHONPATH with modules of the same names as in site-packages."""
    if prefix is None:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for folder in _folders(env, "PYTHONPATH"):
        if os.path.realpath(folder) == os.path.realpath(prefix.site):
            continue
        there = {n.removesuffix(".py") for n in _names(folder) if n.endswith(".py") or _package(folder, n)}
        both = sorted(there & set(prefix.modules))
        if both:
            found[folder] = tuple(both[:MOST_NAMES])
    return found


def has_toolkit(env: Mapping[str, str]) -> bool:
    """Whether deep_gemm and torch would find a toolkit without CUDA_HOME."""
    return shutil.which("nvcc", path=env.get("PATH", "")) is not None or os.path.isdir("/usr/local/cuda")


def compile_folders(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Where flashinfer and torch put what they compile, by their variables or defaults."""
    home = Path(env.get("HOME") or "/")
    flashinfer = Path(env.get("FLASHINFER_WORKSPACE_BASE") or home) / ".cache/flashinfer"
    extensions = Path(
        env.get("TORCH_EXTENSIONS_DIR") or Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "torch_extensions"
    )
    return flashinfer, extensions


def read_cached(folders: tuple[Path, ...]) -> tuple[tuple[Cached, ...], bool]:
    """The libraries there with what they need, and whether there are more than are looked at."""
    paths = list(itertools.islice(_files(folders, ".so"), MOST_LIBRARIES + 1))
    found = []
    for path in paths[:MOST_LIBRARIES]:
        try:
            with open_if_elf(path) as elf:
                dynamic = read_dynamic(elf) if elf else None
        except (OSError, OrbitError):
            continue
        if dynamic:
            found.append(Cached(path=path, needed=dynamic.needed))
    return tuple(found), len(paths) > MOST_LIBRARIES


def read_locks(folders: tuple[Path, ...], now: float | None = None) -> tuple[Lock, ...]:
    """Files called ``lock``: torch's extension builder takes their being there for somebody who builds."""
    found = []
    for path in itertools.islice(_files(folders[1:], "/lock"), MOST_LIBRARIES):
        try:
            age = (time.time() if now is None else now) - os.stat(path).st_mtime
        except OSError:
            continue
        found.append(Lock(path=path, age_s=max(0, int(age))))
    return tuple(found)


def _files(folders: tuple[Path, ...], end: str) -> Iterator[str]:
    for folder in folders:
        for at, inner, names in os.walk(folder):
            inner.sort()
            yield from (path for name in sorted(names) if (path := f"{at}/{name}").endswith(end))


def _folders(env: Mapping[str, str], name: str) -> list[str]:
    return [folder for folder in env.get(name, "").split(":") if folder]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _package(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name, "__init__.py"))
