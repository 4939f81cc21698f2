"""What of the host enters a wheel: the C++ compiler, the linker and the C library.

The versions of glibc's symbols that a binary needs come from the machine it is linked on, so a wheel from another
machine's cache is the same wheel only when all three agree.
"""

from __future__ import annotations

import functools
import os
import re

from orbit.core.proc import run
from orbit.core.tools import find

VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*")


@functools.cache
def host_toolchain() -> str:
    """``g++ 12.2.0, ld 2.40, glibc 2.36``.

    Raises :class:`MissingError` without a C++ compiler.
    """
    compiler = find("g++")
    shown = run([compiler, "-dumpfullversion"], doing="ask the C++ compiler for its version")
    linker = run([compiler, "-Wl,--version"], doing="ask the linker for its version", check=False)
    first = (linker.stdout.decode(errors="replace").splitlines() or [""])[0]
    found = VERSION.findall(first)
    libc = os.confstr("CS_GNU_LIBC_VERSION") or "libc unknown"
    return f"g++ {shown.stdout.decode().strip()}, ld {found[-1] if found else 'unknown'}, {libc}"
