"""Where every front starts: ``python -I -S orbit-shim.py TOOL ARGUMENTS``."""

# ruff: noqa: PLC0415

from __future__ import annotations

import json
import os
import sys

from .places import CONFIG_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .config import Config

CUDA_TOOLS = ("nvcc", "cudafe++", "ptxas", "nvlink", "cicc")
"""Fronts in CUDA_HOME; the real program is beside each, with ``-real`` behind its name. ``cicc`` is in nvvm/bin."""
HOST_TOOLS = ("gcc", "g++", "cc", "c++")
BUILD_TOOLS = ("ninja", "make", "gmake")
"""Fronts in a folder of their own, first on PATH."""


def run(tool: str, arguments: Sequence[str], config: Config) -> int:
    """Run one front; its status. Each brings in only what it needs."""
    if tool == "nvcc":
        from .nvcc import run_nvcc

        return run_nvcc(arguments, config)
    if tool in HOST_TOOLS:
        from .host import run_host

        return run_host(tool, arguments, config)
    if tool in BUILD_TOOLS:
        from .build_tools import run_build_tool

        return run_build_tool(tool, arguments, config)
    from .device import run_cicc, run_cudafe, run_nvlink, run_ptxas

    fronts = {"cudafe++": run_cudafe, "cicc": run_cicc, "ptxas": run_ptxas, "nvlink": run_nvlink}
    return fronts[tool](arguments, config)


def main() -> None:
    """Run the front named by the first argument with the settings beside this package; its status is ours."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(folder, CONFIG_NAME), encoding="utf-8") as file:
        config: Config = json.load(file)
    try:
        status = run(sys.argv[1], sys.argv[2:], config)
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
