"""The machine that checks run on, for the report: processor, GPUs, driver; kinds and versions, no name or address.

A driver can crash who asks it, so a process of its own does (:func:`main`).
"""

from __future__ import annotations

import ctypes
import datetime as dt
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orbit.core.paths import PACKAGE
from orbit.core.proc import run
from orbit.errors import CommandFailed
from orbit.smoke.kinds.device import describe, device_count
from orbit.smoke.model import CheckError

ASK = "import sys; sys.path.insert(0, sys.argv[1]); from orbit.smoke.machine import main; main()"
CPUINFO = Path("/proc/cpuinfo")
DRIVER_FILE = Path("/sys/module/nvidia/version")
"""The kernel module's own word, where no management library can be loaded."""
LIMIT_S = 60.0
TEXT_BYTES = 96
"""NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE of nvml.h is 80."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device, as the driver describes it."""

    name: str
    capability: str
    """CUDA compute capability, ``9.0``."""
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What kind of machine it is."""

    system: str
    """``Linux 6.1.0-31-amd64 x86_64``."""
    cpu: str
    """Name of the processor; empty when the system does not say."""
    cores: int
    """Usable by this process."""
    memory_bytes: int
    driver: str = ""
    """Release of the GPU driver, ``580.65.06``; empty when there is none, or it does not say."""
    driver_cuda: str = ""
    """Newest CUDA release the driver serves, ``13.0``."""
    gpus: tuple[Gpu, ...] = ()


def started_now() -> str:
    """The present moment as reports have it: UTC, ISO 8601, to the second."""
    return dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat()


def look() -> MachineFacts:
    """Describe this machine. Without a driver, or with one that crashes, there are no GPUs; never raises for that."""
    found = _ask()
    uname = platform.uname()
    return MachineFacts(
        system=f"{uname.system} {uname.release} {uname.machine}",
        cpu=_cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        driver=str(found.get("driver", "")),
        driver_cuda=str(found.get("driver_cuda", "")),
        gpus=tuple(Gpu(**gpu) for gpu in found.get("gpus", ())),
    )


def main() -> None:
    """In a process of its own: what the driver says, as JSON on stdout; nothing where there is none."""
    try:
        found = [describe(index) for index in range(device_count())]
    except (OSError, CheckError):
        found = []
    gpus = [
        asdict(Gpu(name=each["device"], capability=each["capability"], memory_bytes=each["memory_bytes"]))
        for each in found
    ]
    cuda = found[0]["driver_cuda"] if found else ""
    json.dump({"driver": driver_release(), "driver_cuda": cuda, "gpus": gpus}, sys.stdout)


def driver_release() -> str:
    """Release of the NVIDIA driver: from its management library, else from its kernel module; empty without one."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(TEXT_BYTES)
        if library.nvmlInit_v2() == 0 and library.nvmlSystemGetDriverVersion(text, TEXT_BYTES) == 0:
            return text.value.decode(errors="replace")
    except (OSError, AttributeError):
        pass
    try:
        return DRIVER_FILE.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _ask() -> Mapping[str, Any]:
    argv = [sys.executable, "-P", "-c", ASK, str(PACKAGE.parent)]
    try:
        done = run(argv, doing="looking at the GPUs", env=dict(os.environ), timeout_s=LIMIT_S, check=False)
        found = json.loads(done.stdout)
    except (CommandFailed, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _cpu_name() -> str:
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "")
