"""The settings of one build, handed to every front as a JSON file beside the copied package."""

from __future__ import annotations

from typing import TypedDict

CONFIG_NAME = "orbit-nvcc.json"
"""File name, in CUDA_HOME/bin."""


class Config(TypedDict):
    """What the fronts of one build know."""

    bin: str
    """CUDA_HOME/bin of the build: the real programs are there, with ``-real`` behind their names."""
    root: str
    """The build's folder; paths below it never reach a result."""
    pairs: list[list[str]]
    """(virtual, real) architectures, e.g. ``["compute_90a", "sm_90a"]``."""
    threads: int
    """nvcc's ``--threads``."""
    flags: list[str]
    """Flags added to every nvcc command line."""
    log: str
    """File that gets one JSON line per call."""
