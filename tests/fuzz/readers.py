"""The readers that take bytes from anywhere, each with seeds that reach its inside. Used by fuzzing and by its test."""

from __future__ import annotations

from tests.fuzz import archives, binaries, texts
from tests.fuzz.base import Reader

READERS: dict[str, Reader] = {**binaries.READERS, **archives.READERS, **texts.READERS}
"""By name."""
