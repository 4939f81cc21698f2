"""What of the host enters a wheel: the C++ compiler, the linker, the C library, and how its Python was built.

The versions of glibc's symbols that a binary needs come from the machine it is linked on, and distributions give their
compilers other defaults; so a wheel from another machine's cache is the same wheel only when all of these agree.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
from pathlib import Path

from orbit.core.files import sha256_file
from orbit.core.proc import run
from orbit.core.records import content_key
from orbit.core.tools import find

VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*")
PACKAGED = re.compile(r"\((.+)\)")
FLAGS = ("CFLAGS", "CCSHARED", "AR", "ARFLAGS", "EXT_SUFFIX", "SHLIB_SUFFIX")
"""What setuptools takes from the interpreter; the other variables it reads are fixed by the build."""


@functools.cache
def host_toolchain() -> str:
    """``g++ 12.2.0 (Debian 12.2.0-14+deb12u1), ld 2.40, glibc 2.36``; what is in parentheses is who packaged it.

    Raises :class:`MissingError` without a C++ compiler.
    """
    compiler = find("g++")
    shown = run([compiler, "-dumpfullversion"], doing="ask the C++ compiler for its version")
    title = run([compiler, "--version"], doing="ask the C++ compiler who packaged it", check=False)
    packaged = PACKAGED.search((title.stdout.decode(errors="replace").splitlines() or [""])[0])
    linker = run([compiler, "-Wl,--version"], doing="ask the linker for its version", check=False)
    first = (linker.stdout.decode(errors="replace").splitlines() or [""])[0]
    found = VERSION.findall(first)
    libc = os.confstr("CS_GNU_LIBC_VERSION") or "libc unknown"
    version = f"{shown.stdout.decode().strip()}{f' ({packaged[1]})' if packaged else ''}"
    return f"g++ {version}, ld {found[-1] if found else 'unknown'}, {libc}"


def compiler_release(cuda: Path) -> str:
    """The line of ``nvcc --version`` that names the release, of the CUDA_HOME ``cuda``; ``unknown`` without that line.

    ``none`` where there is no nvcc: the wheels of CUDA 12 have none, and host code can be compiled without.
    """
    if not (cuda / "bin" / "nvcc").exists():
        return "none"
    shown = run([cuda / "bin" / "nvcc", "--version"], doing="ask nvcc for its version").stdout.decode()
    return next((line for line in shown.splitlines() if line.startswith("Cuda compilation tools")), "unknown")


@functools.cache
def python_build() -> str:
    """Hash of what the interpreter gives to the compilation of extensions, wherever it is installed.

    Two CPythons of one version can have been configured differently: their flags and ``pyconfig.h`` are in every
    extension built with them.
    """
    flags = {name: str(sysconfig.get_config_var(name)).replace(sys.base_prefix, "python") for name in FLAGS}
    header = Path(sysconfig.get_config_h_filename())
    return content_key([flags, sha256_file(header) if header.is_file() else ""])
