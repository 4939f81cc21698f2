"""The log of a build's compiler calls, and where the real programs are."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from .config import Config


def real_tool(name: str, config: Config, here: str) -> str:
    """Path of the real program, relative when ``here`` is inside the build (nvcc puts its own path into results)."""
    path = os.path.join(str(config["bin"]), f"{name}-real")
    return os.path.relpath(path, here) if (here + "/").startswith(str(config["root"]) + "/") else path


def append(config: Config, line: Mapping[str, Any]) -> None:
    """One write per line: parallel compilers append without mixing."""
    handle = os.open(str(config["log"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(handle, (json.dumps(line, sort_keys=True) + "\n").encode())
    finally:
        os.close(handle)
