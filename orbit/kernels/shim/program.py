"""Where every front starts: ``python -I -S orbit-shim.py TOOL ARGUMENTS``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence

from .config import CONFIG_NAME, Config
from .device import run_cudafe, run_ptxas
from .nvcc import run_nvcc

TOOLS: dict[str, Callable[[Sequence[str], Config], int]] = {
    "nvcc": run_nvcc,
    "cudafe++": run_cudafe,
    "ptxas": run_ptxas,
}
"""Programs of CUDA_HOME/bin that the shim stands in for; the real one is beside it, with ``-real`` behind its name."""


def main() -> None:
    """Run the front named by the first argument with the settings beside this package; its status is ours."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(folder, CONFIG_NAME), encoding="utf-8") as file:
        config: Config = json.load(file)
    sys.exit(TOOLS[sys.argv[1]](sys.argv[2:], config))
