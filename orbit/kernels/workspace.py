"""The folder one build happens in: environment, CUDA_HOME behind the shim, fixed variables, its build tool's count.

Layout (the same shape on every machine, so relative paths inside it are too)::

    env      -> the build environment in the store
    cuda/    CUDA_HOME: links over env's CUDA wheels; bin/nvcc is the shim, bin/nvcc-real the compiler (see TOOLS)
    src/     the unpacked source
    out/     the finished wheel
    home/ tmp/
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from orbit.core.proc import run
from orbit.core.tools import find
from orbit.env.cuda_home import link_farm
from orbit.errors import InputError, MissingError
from orbit.kernels.buildenv import SITE
from orbit.kernels.fronts import Settings, install_fronts

SOURCE_DATE_EPOCH = "315532800"
"""1980-01-01, the earliest time a zip archive can hold."""
NOWHERE = "http://127.0.0.1:9"
"""Proxy of every build: some setup.py files download somebody else's binary when they can."""
NINJA = re.compile(rb"\[(\d+)/(\d+)\] ")
PLAIN = re.compile(r"^[A-Za-z0-9_./+@~-]+$")
DROPPED = ("USER", "LOGNAME", "TERM", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "SSL_CERT_FILE")
"""Variables that programs of orbit get from the caller and builds do not."""
TAIL_BYTES = 65536


class Workspace:
    """Paths and variables of one build in ``root``, an empty folder. ``log`` gets the output of every command."""

    def __init__(self, root: Path, log: Path) -> None:
        self.root = root
        self.env = root / "env"
        self.cuda = root / "cuda"
        self.source = root / "src"
        self.out = root / "out"
        self.log = log
        self.units = root / "units.jsonl"

    def prepare(
        self,
        environment: Path,
        pairs: Sequence[tuple[str, str]],
        settings: Settings | None = None,
        toolkit: Path | None = None,
    ) -> None:
        """Lay out the folder over an installed build environment, with the fronts enforcing ``pairs``.

        ``toolkit`` is a CUDA toolkit of the host in place of the environment's. Raises :class:`InputError` when the
        path of the folder has characters that build tools trip over.
        """
        if not PLAIN.match(str(self.root)):
            raise InputError(
                f"{self.root}: compilers and build scripts cannot work in a path with blanks or special characters",
                fix="point ORBIT_CACHE at a folder whose path has letters, digits and . _ - + @ ~ only",
            )
        self.env.symlink_to(environment)
        for name in ("out", "home", "tmp"):
            (self.root / name).mkdir()
        link_farm(self.env / SITE, self.cuda, relative=not toolkit, toolkit=toolkit)
        flags = [f"-Xcompiler={flag}" for flag in self.prefix_maps()]
        install_fronts(self.root, pairs, flags, self.units, settings or Settings())

    def command(self, argv: Sequence[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
        """``argv`` as it runs inside the build: without network, nothing of the caller, new files readable by all."""
        unset = [word for name in DROPPED for word in ("-u", name)]
        return [*network_isolation(), "env", *unset, "sh", "-c", 'umask 022; exec "$@"', "sh", *argv]

    def prefix_maps(self) -> tuple[str, ...]:
        """Flags that keep this machine's paths out of ``__FILE__`` and debug information of host code."""
        return (
            f"-ffile-prefix-map={self.root}=.",
            f"-ffile-prefix-map={sys.base_prefix}=python",
            # else gcc says a system header's real path where that is shorter than the one it was given
            "-fno-canonical-system-headers",
        )

    def variables(self, *, jobs: int, include: Sequence[str], extra: dict[str, str]) -> dict[str, str]:
        """The environment of the build, on top of ``clean_env``."""
        compiler = find("g++").parent
        flags = " ".join(["-g0", *self.prefix_maps()])
        proxies = {name: NOWHERE for lower in ("http_proxy", "https_proxy", "all_proxy") for name in _cases(lower)}
        return {
            "PATH": f"{self.root}/fronts:{self.env}/bin:{self.cuda}/bin:{compiler}:/usr/bin:/bin",
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "VIRTUAL_ENV": str(self.env),
            "CUDA_HOME": str(self.cuda),
            "CUDA_PATH": str(self.cuda),
            "CC": "gcc",
            "CXX": "g++",
            "LDSHARED": "gcc -shared",
            "LDCXXSHARED": "g++ -shared",
            "CFLAGS": flags,
            "CXXFLAGS": flags,
            "CPATH": ":".join(str(self.env / SITE / folder) for folder in include),
            "MAX_JOBS": str(jobs),
            "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH,
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "ZERO_AR_DATE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CEILING_DIRECTORIES": str(self.root),
            **proxies,
            "no_proxy": "",
            "NO_PROXY": "",
            **extra,
        }


@functools.cache
def network_isolation() -> tuple[str, ...]:
    """Words before a command that take the network from it; empty where the kernel or the host does not let us.

    A network namespace of its own, in which not even the loopback is up. Unix sockets with a path still work, so the
    job server can be asked. Where namespaces are not allowed, proxies that lead nowhere are all that keeps a build from
    the network: whoever runs a build should say so in its log.
    """
    for words in (("unshare", "--net", "--"), ("unshare", "--user", "--map-root-user", "--net", "--")):
        with contextlib.suppress(MissingError):
            if run([*words, "true"], doing="see whether builds can be cut off", check=False).returncode == 0:
                return words
    return ()


def ninja_count(log: Path) -> tuple[int, int] | None:
    """(done, total) of the last ``[3/30]`` in a build log, or None."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            found = NINJA.findall(file.read())
    except FileNotFoundError:
        return None
    return (int(found[-1][0]), int(found[-1][1])) if found else None


def _cases(name: str) -> tuple[str, str]:
    return name, name.upper()
