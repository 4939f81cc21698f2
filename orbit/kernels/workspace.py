"""The folder one build happens in: environment, CUDA_HOME behind the shim, fixed variables, progress from its logs.

Layout (the same shape on every machine, so relative paths inside it are too)::

    env      -> the build environment in the store
    cuda/    CUDA_HOME: links over env's CUDA wheels; bin/nvcc is the shim, bin/nvcc-real the compiler (see TOOLS)
    src/     the unpacked source
    out/     the finished wheel
    home/ tmp/
"""

from __future__ import annotations

import compileall
import contextlib
import json
import py_compile
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from orbit.core.console import Progress
from orbit.core.tools import find
from orbit.env.cuda_home import link_farm
from orbit.errors import InputError
from orbit.kernels import shim
from orbit.kernels.buildenv import SITE
from orbit.kernels.shim.arguments import check_pairs
from orbit.kernels.shim.config import CONFIG_NAME, Config
from orbit.kernels.shim.program import TOOLS

SOURCE_DATE_EPOCH = "315532800"
"""1980-01-01, the earliest time a zip archive can hold."""
NOWHERE = "http://127.0.0.1:9"
"""Proxy of every build: some setup.py files download somebody else's binary when they can."""
NINJA = re.compile(rb"\[(\d+)/(\d+)\] ")
PLAIN = re.compile(r"^[A-Za-z0-9_./+@~-]+$")
SCRIPT = "orbit-shim.py"
PACKAGE = "orbit_shim"
POLL_S = 1.0
HEARTBEAT_S = 30.0
"""One unit can take ten minutes: the count is repeated so that people see that work goes on."""
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

    def prepare(self, environment: Path, pairs: Sequence[tuple[str, str]]) -> None:
        """Lay out the folder over an installed build environment, with the shim enforcing ``pairs``.

        Raises :class:`InputError` when the path of the folder has characters that build tools trip over.
        """
        if not PLAIN.match(str(self.root)):
            raise InputError(
                f"{self.root}: compilers and build scripts cannot work in a path with blanks or special characters",
                fix="point ORBIT_CACHE at a folder whose path has letters, digits and . _ - + @ ~ only",
            )
        self.env.symlink_to(environment)
        for name in ("out", "home", "tmp"):
            (self.root / name).mkdir()
        link_farm(self.env / SITE, self.cuda, relative=True)
        self._install_shim(pairs)

    def _install_shim(self, pairs: Sequence[tuple[str, str]]) -> None:
        check_pairs(pairs)
        folder = self.cuda / "bin"
        script = install(folder)
        config: Config = {
            "bin": str(folder),
            "root": str(self.root),
            "pairs": [list(pair) for pair in pairs],
            # all architectures of a unit at once: the last, largest unit would else keep one core busy alone
            "threads": len(pairs),
            "flags": [f"-Xcompiler={flag}" for flag in self.prefix_maps()],
            "log": str(self.units),
        }
        (folder / CONFIG_NAME).write_text(json.dumps(config), encoding="utf-8")
        for tool in TOOLS:
            launcher = folder / tool
            launcher.rename(folder / f"{tool}-real")
            # a shell line and not a shebang: those are limited to 127 bytes on older kernels
            launcher.write_text(
                f'#!/bin/sh\nexec "{self.env}/bin/python" -I -S -B "{script}" {tool} "$@"\n', encoding="utf-8"
            )
            launcher.chmod(0o755)

    def prefix_maps(self) -> tuple[str, ...]:
        """Flags that keep this machine's paths out of ``__FILE__`` and debug information of host code."""
        return (f"-ffile-prefix-map={self.root}=.", f"-ffile-prefix-map={sys.base_prefix}=python")

    def variables(self, *, jobs: int, include: Sequence[str], extra: dict[str, str]) -> dict[str, str]:
        """The environment of the build, on top of ``clean_env``."""
        compiler = find("g++").parent
        flags = " ".join(["-g0", *self.prefix_maps()])
        proxies = {name: NOWHERE for lower in ("http_proxy", "https_proxy", "all_proxy") for name in _cases(lower)}
        return {
            "PATH": f"{self.env}/bin:{self.cuda}/bin:{compiler}:/usr/bin:/bin",
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
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CEILING_DIRECTORIES": str(self.root),
            **proxies,
            "no_proxy": "",
            "NO_PROXY": "",
            **extra,
        }

    @contextlib.contextmanager
    def watched(self, name: str, device_units: int, progress: Progress) -> Iterator[None]:
        """Report finished translation units while the body runs: ninja's own count, else the shim's log."""
        ended = threading.Event()

        def watch() -> None:
            shown, last = (0, device_units), time.monotonic()
            while not ended.wait(POLL_S):
                # the last count of ninja may have scrolled out of the part that is read
                now = ninja_count(self.log) or max(shown, (_lines(self.units), shown[1]))
                if now != shown or time.monotonic() - last > HEARTBEAT_S:
                    shown, last = now, time.monotonic()
                    progress.advance(f"{name}: translation units done", *now)

        thread = threading.Thread(target=watch, name=f"watch {name}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def install(folder: Path) -> Path:
    """Copy the compiler shim into ``folder``, compiled; the script that runs it."""
    package = folder / PACKAGE
    shutil.copytree(Path(shim.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(package, quiet=1, invalidation_mode=mode, stripdir=folder)
    script = folder / SCRIPT
    script.write_text(
        f"import sys\n\nsys.path.insert(0, {str(folder)!r})\nfrom {PACKAGE}.program import main\n\nmain()\n",
        encoding="utf-8",
    )
    return script


def ninja_count(log: Path) -> tuple[int, int] | None:
    """(done, total) of the last ``[3/30]`` in a build log, or None."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            found = NINJA.findall(file.read())
    except FileNotFoundError:
        return None
    return (int(found[-1][0]), int(found[-1][1])) if found else None


def _lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def _cases(name: str) -> tuple[str, str]:
    return name, name.upper()
