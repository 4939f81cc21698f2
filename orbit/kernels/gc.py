"""What the store keeps for kernels, and what of it can go: :mod:`orbit.core.gc` over these kinds alone.

Kept always: what a build of any profile of this checkout would use right now.
"""

from __future__ import annotations

from collections.abc import Collection

from orbit.core.gc import Sweep, plan_sweep, sweep
from orbit.core.stock import take_stock
from orbit.core.store import Store

ENTRY_KINDS = ("wheel", "verified", "sdist", "locked-wheel", "git", "build-env", "tool")
"""Kinds of store entries that belong to kernels."""
UNITS = "units"
"""Folder of the unit cache: one file per step or object."""
LOOSE = (UNITS, "downloads", "logs")
"""Folders of kernels whose files are things of their own."""


def collect(
    store: Store, pinned: Collection[tuple[str, str]], *, keep_days: float, max_bytes: int | None, dry_run: bool
) -> Sweep:
    """Take stock of what kernels have, choose, and unless ``dry_run`` remove."""
    stock = take_stock(store, pinned, kinds=ENTRY_KINDS, loose=LOOSE)
    plan = plan_sweep(stock, keep_days=keep_days, max_bytes=max_bytes)
    if not dry_run:
        sweep(store, plan)
    return plan
