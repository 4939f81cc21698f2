"""Which CUDA libraries running processes have really loaded: /proc/PID/maps, of this user's processes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from orbit.doctor.facts import Loaded, Process
from orbit.launch.fingerprint.maps import mapped
from orbit.launch.preflight.below import text

WATCHED = re.compile(r"^lib(?:nccl\.so|cudnn|cudart|cublas|nvrtc|nvshmem_host|torch_cuda\.so|c10\.so)")
MOST_PROCESSES = 400
"""A node has a few ranks and engines, and some hundred helpers."""


def read_loaded(root: Path, processes: Iterable[Process]) -> tuple[Loaded, ...]:
    """What each process has loaded of the libraries that must be there once; nothing for those with none."""
    found = []
    for process in list(processes)[:MOST_PROCESSES]:
        files = [each for each in mapped(text(root, f"proc/{process.pid}/maps")) if WATCHED.match(_name(each.path))]
        if files:
            found.append(
                Loaded(
                    pid=process.pid,
                    name=process.name,
                    libraries=tuple(each.path for each in files),
                    deleted=tuple(each.path for each in files if each.deleted),
                )
            )
    return tuple(found)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
