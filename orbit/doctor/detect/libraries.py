"""What the loader and the interpreter would take from elsewhere: by variables, and from what was compiled before."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from orbit.doctor.detect.seen import Seen, likely, possible
from orbit.doctor.facts import Facts, Prefix

RUNTIME = re.compile(r"^lib(?:cudart|nvrtc|cublas|cublasLt)\.so\.(\d+)")
NEED_TOOLKIT = ("deep-gemm", "sgl-deep-gemm", "deep-ep", "deep-gemm-official")
"""Packages that look for a CUDA toolkit when they are imported."""
MOST_SHOWN = 3


def cuda_home_unset(facts: Facts) -> Iterator[Seen]:
    """Neither the variable nor anything that takes its place."""
    if not facts.prefix or any(facts.variables.get(name) for name in ("CUDA_HOME", "CUDA_PATH")) or facts.toolkit:
        return
    needing = [name for name in NEED_TOOLKIT if name in facts.prefix.packages]
    if needing:
        own = f"; {facts.prefix.path}/cuda is one" if facts.prefix.has_cuda else ""
        yield Seen(f"CUDA_HOME is not set and no toolkit is found; {needing[0]} cannot be imported{own}")


def another_environment_active(facts: Facts) -> Iterator[Seen]:
    """Variables that name another environment than the one that is looked at."""
    if facts.prefix is None:
        return
    here = os.path.realpath(facts.prefix.path)
    for name in ("ORBIT_PREFIX", "VIRTUAL_ENV", "CONDA_PREFIX"):
        value = facts.variables.get(name, "")
        if value and os.path.realpath(value) != here:
            yield possible(f"{name}={value}, and the environment looked at is {facts.prefix.path}")


def foreign_libraries_first(facts: Facts) -> Iterator[Seen]:
    """LD_LIBRARY_PATH beats a library's own path."""
    for folder, names in facts.foreign.items():
        shown = ", ".join(names[:MOST_SHOWN]) + (", ..." if len(names) > MOST_SHOWN else "")
        yield Seen(f"LD_LIBRARY_PATH: {folder} has {shown}")


def compat_libcuda_first(facts: Facts) -> Iterator[Seen]:
    """A compatibility driver that the loader would find."""
    for folder in facts.compat:
        yield likely(f"{folder} has a libcuda.so.1 and is searched by the loader")


def python_path_shadows(facts: Facts) -> Iterator[Seen]:
    """PYTHONPATH comes before site-packages."""
    for folder, names in facts.shadows.items():
        yield likely(f"PYTHONPATH: {folder} has {', '.join(names[:MOST_SHOWN])}, which site-packages has, too")


def compiled_for_other_cuda(facts: Facts) -> Iterator[Seen]:
    """Compiled kernels that need the other CUDA."""
    own = _cuda_major(facts.prefix)
    if not own:
        return
    for cached in facts.cached:
        others = sorted(name for name in cached.needed if (match := RUNTIME.match(name)) and match[1] != own)
        if others:
            yield Seen(f"{cached.path} needs {others[0]}; this environment has CUDA {own}")


def _cuda_major(prefix: Prefix | None) -> str:
    """``13`` or ``12``: the CUDA release of an environment; empty when it has none, or both."""
    if prefix is None:
        return ""
    plain = prefix.packages.get("nvidia-cuda-runtime", "").partition(".")[0]
    found = {plain} | {name[-2:] for name in prefix.packages if re.fullmatch(r"nvidia-cuda-runtime-cu1\d", name)}
    found.discard("")
    return found.pop() if len(found) == 1 else ""
