"""Amounts as schedulers spell them."""

from __future__ import annotations

import re

QUANTITY = re.compile(r"^([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?$")
"""Of Kubernetes (apimachinery, resource.Quantity): ``64Gi``, ``500m``, ``1e9``; no ``GB``, no ``g``."""
SCALE = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3} | {
    unit: 1000.0**power for power, unit in enumerate("MGTPE", 2)
}
BINARY = {f"{unit}i": 1024.0**power for power, unit in enumerate("KMGTPE", 1)}
DOCKER = re.compile(r"^(\d+(?:\.\d+)?) ?([bkmgtp])?i?b?$", re.IGNORECASE)
"""Of docker and compose: a letter is a power of 1024."""
CONDOR = re.compile(r"^(\d+(?:\.\d+)?) *([kmgt])?i?b?$", re.IGNORECASE)
LARGEST = 24
"""Characters of a number that anybody means."""


def kubernetes_amount(text: str) -> float | None:
    """The number that a quantity stands for; None where Kubernetes would refuse it."""
    match = QUANTITY.match(text) if len(text) <= LARGEST else None
    if match is None:
        return None
    if match[3]:
        return float(f"{match[1]}e{match[3]}")
    return float(match[1]) * (SCALE | BINARY)[match[2] or ""]


def docker_bytes(text: str) -> int | None:
    """Bytes of ``16g``; None where docker would refuse it."""
    match = DOCKER.match(text.strip()) if len(text) <= LARGEST else None
    return int(float(match[1]) * 1024.0 ** "bkmgtp".index((match[2] or "b").lower())) if match else None


def condor_bytes(text: str, unit: str) -> int | None:
    """Bytes of ``request_memory`` (``unit`` is ``m``) and ``request_disk`` (``k``); None for an expression."""
    match = CONDOR.match(text.strip()) if len(text) <= LARGEST else None
    return int(float(match[1]) * 1024.0 ** (1 + "kmgt".index((match[2] or unit).lower()))) if match else None


def whole(text: str) -> int | None:
    """A number that is not negative, in ASCII digits; None for anything else."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LARGEST else None
