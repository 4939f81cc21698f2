"""The disassembler of the lock, ready to run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orbit.core.console import Progress
from orbit.core.store import Store
from orbit.kernels.prebuilt.listing import PACKAGE, unpack_tool
from orbit.kernels.prebuilt.obtain import locked_wheel, obtain_wheel
from orbit.profile.lock import Lock

KIND = "tool"


def disassembler_inputs(lock: Lock) -> dict[str, Any]:
    """The key of the disassembler in the store."""
    return {"wheel": locked_wheel(PACKAGE, lock).sha256}


def locked_disassembler(lock: Lock, store: Store, progress: Progress) -> Path:
    """``nvdisasm`` in the store, out of the wheel that the lock names.

    Raises :class:`MissingError` when the wheel cannot be had.
    """
    source = locked_wheel(PACKAGE, lock)

    def work(folder: Path) -> dict[str, Any]:
        unpack_tool(obtain_wheel(source, store, progress), folder)
        return {}

    return store.obtain(KIND, disassembler_inputs(lock), work).path / "nvdisasm"
