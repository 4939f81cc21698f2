"""What a reader is to fuzzing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Reader:
    """One reader: what it does with bytes, and inputs that it understands."""

    read: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
