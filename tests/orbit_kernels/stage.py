"""orbit_kernels ready to import on a machine with nvcc and no wheel: a copy of the package beside a fresh library."""

from __future__ import annotations

import concurrent.futures
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "kernels" / "src" / "orbit_kernels"
TARGETS = ("90a", "100a")
LIBRARY = "liborbit_kernels.so"


def build(
    dest: Path,
    *,
    targets: Iterable[str] = TARGETS,
    defines: Iterable[str] = (),
    sources: Iterable[str] = (),
    nvcc: str = "nvcc",
) -> Path:
    """Compile ``sources`` (default: every ``csrc/*.cu``), in parallel, to the shared object ``dest``."""
    pairs = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in targets]
    flags = ["-std=c++17", "-O3", "-Xcompiler", "-fPIC,-fvisibility=hidden", *pairs, *(f"-D{each}" for each in defines)]
    dest.parent.mkdir(parents=True, exist_ok=True)
    chosen = [SOURCE / "csrc" / each for each in sources] or sorted((SOURCE / "csrc").glob("*.cu"))
    objects = [dest.with_suffix(f".{path.stem}.o") for path in chosen]

    def compiled(path: Path, to: Path) -> None:
        subprocess.run([nvcc, *flags, "-c", str(path), "-o", str(to)], check=True)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(compiled, chosen, objects))
    subprocess.run([nvcc, "-shared", *pairs, *map(str, objects), "-o", str(dest)], check=True)
    return dest


def stage(folder: Path, library: Path | None = None) -> Path:
    """Put the package with its library (built unless given) into ``folder`` and that first on ``sys.path``."""
    shutil.copytree(SOURCE / "orbit_kernels", folder / "orbit_kernels", dirs_exist_ok=True)
    dest = folder / "orbit_kernels" / LIBRARY
    if library is None:
        build(dest)
    else:
        shutil.copyfile(library, dest)
    sys.path.insert(0, str(folder))
    return folder
