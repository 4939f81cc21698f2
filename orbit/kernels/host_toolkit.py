"""nvcc from the host, for CUDA releases whose compiler no index has.

The wheels of CUDA 12 hold ptxas, libNVVM and headers, and no nvcc, cudafe++, cicc or fatbinary under any name. A
profile of such a release says ``toolkit = "host"``; then device code is compiled with the toolkit that
``ORBIT_CUDA_TOOLKIT`` names. Nothing is looked for by itself: what /usr/local/cuda happens to be must not decide what
is built. Its programs are part of the key of every wheel they compile.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from orbit.core.files import sha256_file
from orbit.core.findings import Skipped
from orbit.core.records import content_key
from orbit.errors import InputError, MissingError
from orbit.kernels.recipe import Recipe
from orbit.kernels.toolchain import compiler_release
from orbit.profile.model import Profile

VARIABLE = "ORBIT_CUDA_TOOLKIT"
PROGRAMS = ("bin/nvcc", "bin/cudafe++", "bin/ptxas", "bin/fatbinary", "bin/nvlink", "nvvm/bin/cicc")
"""What a compilation runs; all of them must be there."""
HEADER = "include/cuda_runtime_api.h"
RELEASE = re.compile(r"release (\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class HostToolkit:
    """A toolkit of the host that was looked at."""

    path: Path
    """The folder with ``bin``, ``include``, ``lib64`` and ``nvvm``."""
    release: str
    """As nvcc says it: ``Cuda compilation tools, release 12.8, V12.8.93``."""
    identity: str
    """Hash of the programs: a part of the key of every wheel that is compiled with them."""


def wants_toolkit(recipe: Recipe, profile: Profile) -> bool:
    """Whether the recipe compiles device code and the profile's lock has no compiler for it."""
    return profile.toolkit == "host" and recipe.mode == "source" and recipe.device_units > 0


def host_toolkit(cuda: str) -> HostToolkit | None:
    """The toolkit that ``ORBIT_CUDA_TOOLKIT`` names, of the release ``cuda``; None when it is not set.

    Raises :class:`InputError` when the folder is no toolkit or of another release.
    """
    said = os.environ.get(VARIABLE, "")
    return _look(Path(said).absolute(), cuda) if said else None


@functools.cache
def _look(path: Path, cuda: str) -> HostToolkit:
    absent = [name for name in (*PROGRAMS, HEADER) if not (path / name).is_file()]
    if absent:
        raise InputError(
            f"{VARIABLE}={path}: not a CUDA toolkit: no {', '.join(absent)}",
            fix=f"name the folder of a whole CUDA {cuda} toolkit, such as /usr/local/cuda-{cuda}",
        )
    release = compiler_release(path)
    found = RELEASE.search(release)
    if found is None or found[1] != cuda:
        raise InputError(
            f"{VARIABLE}={path}: {release}; the profile is for CUDA {cuda}",
            fix=f"name a toolkit of CUDA {cuda}: code of a newer one may not load, and headers differ",
        )
    return HostToolkit(path, release, content_key([release, *(sha256_file(path / name) for name in PROGRAMS)]))


def require_toolkit(recipe: Recipe, profile: Profile) -> HostToolkit:
    """The host's toolkit for ``recipe``.

    Raises :class:`MissingError` when none is named, else as :func:`host_toolkit`.
    """
    found = host_toolkit(profile.cuda)
    if found is None:
        raise MissingError(f"{recipe.name}: {_reason(profile)}", fix=_fix(profile))
    return found


def without_toolkit(recipe: Recipe, profile: Profile) -> Skipped | None:
    """Why the recipe is not built here; None when it can be. Raises as :func:`host_toolkit`."""
    if not wants_toolkit(recipe, profile) or host_toolkit(profile.cuda) is not None:
        return None
    return Skipped(
        what=recipe.dist, reason=f"{_reason(profile)}; {_fix(profile)}", estimate=f"{recipe.core_hours:g} core-hours"
    )


def _reason(profile: Profile) -> str:
    return f"device code needs nvcc of CUDA {profile.cuda}, which no index has, and {VARIABLE} names no toolkit"


def _fix(profile: Profile) -> str:
    return f"install NVIDIA's CUDA {profile.cuda} toolkit and set {VARIABLE} to its folder"
