"""Versions as libraries tell them themselves, asked of those that are loaded into this process; none is loaded for it.

Only the standard library is used: this also runs in an environment that has nothing else of Orbit's.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from orbit.launch.fingerprint.maps import mapped

OWN_MAPS = Path("/proc/self/maps")
MODULES = ("torch", "ray")
"""What tells its version in ``__version__`` once it is imported."""


def read_maps() -> str:
    """``/proc/self/maps``."""
    return OWN_MAPS.read_text(encoding="utf-8", errors="surrogateescape")


def versions(maps: str) -> dict[str, str]:
    """Name -> version of what ``maps`` (of this process) shows as loaded, sorted by name.

    ``nccl``, ``cudnn``, ``cublaslt``, ``cuda-runtime``, ``torch``, ``torch-cuda`` (the release torch was built for) and
    ``ray``. What is loaded twice in two versions has both, in one text: ``2.27.3 and 2.28.1``.
    """
    found: dict[str, list[str]] = {}
    for name, stem, ask in LIBRARIES:
        for path in _loaded(maps, stem):
            try:
                library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
                told = ask(library)
            except (OSError, AttributeError):
                continue
            if told and told not in found.setdefault(name, []):
                found[name].append(told)
    for name in MODULES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = [str(version)]
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    if cuda:
        found["torch-cuda"] = [str(cuda)]
    return {name: " and ".join(sorted(told)) for name, told in sorted(found.items()) if told}


def _loaded(maps: str, stem: str) -> Iterator[str]:
    """Paths of mapped files called ``stem`` or ``stem.<number>...``, each once."""
    for each in mapped(maps):
        name = each.path.rpartition("/")[2]
        if name == stem or name.startswith(f"{stem}."):
            yield each.path


def of_number(value: int) -> str:
    """``22703`` -> ``2.27.3``: NCCL (from 2.9), cuDNN (from 9) and cuBLAS count so (nccl.h, cudnn_version.h)."""
    return f"{value // 10000}.{value % 10000 // 100}.{value % 100}" if value > 0 else ""


def of_cuda(value: int) -> str:
    """``13000`` -> ``13.0`` (cuda_runtime_api.h: 1000 * major + 10 * minor)."""
    return f"{value // 1000}.{value % 1000 // 10}" if value > 0 else ""


def _nccl(library: ctypes.CDLL) -> str:
    value = ctypes.c_int()
    return of_number(value.value) if library.ncclGetVersion(ctypes.byref(value)) == 0 else ""


def _cudnn(library: ctypes.CDLL) -> str:
    library.cudnnGetVersion.restype = ctypes.c_size_t
    return of_number(library.cudnnGetVersion())


def _cublaslt(library: ctypes.CDLL) -> str:
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    return of_number(library.cublasLtGetVersion())


def _runtime(library: ctypes.CDLL) -> str:
    value = ctypes.c_int()
    return of_cuda(value.value) if library.cudaRuntimeGetVersion(ctypes.byref(value)) == 0 else ""


LIBRARIES: tuple[tuple[str, str, Callable[[ctypes.CDLL], str]], ...] = (
    ("nccl", "libnccl.so", _nccl),
    ("cudnn", "libcudnn.so", _cudnn),
    ("cublaslt", "libcublasLt.so", _cublaslt),
    ("cuda-runtime", "libcudart.so", _runtime),
)
"""Name of the version, name of the library, and how it is asked."""
