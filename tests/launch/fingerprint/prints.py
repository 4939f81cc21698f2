"""Fingerprints for tests: one sound one, with something changed."""

from __future__ import annotations

from typing import Any

from orbit.launch.fingerprint.model import Fingerprint, Library


def library(name: str, sha256: str = "a" * 64, *, inside: bool = True, at: str = "/opt/orbit/lib") -> Library:
    """A mapped library."""
    return Library(name=name, path=f"{at}/{name}", sha256=sha256, inside=inside)


def sound(**changed: Any) -> Fingerprint:
    """What a node of a sound job says."""
    plain: dict[str, Any] = {
        "image": "sha256:" + "1" * 64,
        "environment": "2" * 64,
        "lock": "3" * 64,
        "kernels": "4" * 64,
        "orbit": "5" * 64,
        "interpreter": "3.12.8 sha256:" + "6" * 64,
        "glibc": "2.36",
        "libraries": (library("libcudnn.so.9"), library("libnccl.so.2"), library("libcuda.so.1", inside=False)),
        "versions": {"nccl": "2.27.3", "torch": "2.9.1"},
        "driver": "580.65.06, CUDA 13.0",
        "devices": ("NVIDIA H100 80GB HBM3 9.0",) * 8,
    }
    return Fingerprint(**(plain | changed))
