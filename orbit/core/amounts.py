"""Amounts for people: bytes and lengths of time, the same everywhere."""

from __future__ import annotations


def format_bytes(count: int) -> str:
    """Decimal units, as disks and registries count: ``812 B``, ``3.4 MB``, ``9.76 GB``."""
    for unit, scale, digits in (("GB", 1e9, 2), ("MB", 1e6, 1), ("kB", 1e3, 1)):
        if count >= scale:
            return f"{count / scale:,.{digits}f} {unit}"
    return f"{count} B"


def format_seconds(seconds: float) -> str:
    """``0.3 s``, ``42 s``, ``3 min 07 s``, ``2 h 05 min``. Less than nothing is nothing."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
