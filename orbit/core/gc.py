"""Which things of a store go, and their going.

Kept are what this checkout would use now, the builds that were used last, whatever was used lately, and everything that
any of these needs. Of the rest goes what nobody used for a while, and then, when there is a limit, what was used
longest ago. What is removed is made or fetched again when it is needed: nothing is lost but time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from orbit.core.files import remove_tree
from orbit.core.records import Record
from orbit.core.stock import LOOSE, Item, Stock, closure
from orbit.core.store import Store

DAY_S = 86400.0
BUILDS = ("base", "base-image", "env", "slim-env")
"""Kinds of which a build has one: the last of them stand for the last builds."""


class Sweep(Record, frozen=True, kw_only=True):
    """What goes and what stays."""

    remove: tuple[Item, ...]
    keep: tuple[Item, ...]
    freed: int = 0
    """Bytes that are free afterwards."""
    held: int = 0
    """Bytes of what goes that layouts and other things still have."""


def choose(
    items: Iterable[Item], *, now: float, keep_days: float, max_bytes: int | None = None, keep_last: int = 0
) -> Sweep:
    """Pure: which items go. ``max_bytes`` limits what is left, as far as what must stay allows; of each kind in
    :data:`BUILDS` the ``keep_last`` that were used last must."""
    ordered = sorted(items, key=lambda item: (-item.used, item.kind, item.name))
    must = {item.id for item in ordered if item.pinned}
    for kind in BUILDS:
        must.update(item.id for item in [item for item in ordered if item.kind == kind][:keep_last])
    must_stay = closure(ordered, must)
    young = {item.id for item in ordered if now - item.used <= keep_days * DAY_S}
    stays = closure(ordered, must | young)
    keep = [item for item in ordered if item.id in stays]
    if max_bytes is not None:
        keep = _within(keep, must_stay, max_bytes)
    kept = {item.id for item in keep}
    return Sweep(remove=tuple(item for item in ordered if item.id not in kept), keep=tuple(keep))


def _within(keep: list[Item], must_stay: frozenset[str], max_bytes: int) -> list[Item]:
    """``keep`` without what was used longest ago and nothing that stays needs, until it is small enough."""
    total = sum(item.size for item in keep)
    wanted: dict[str, int] = {}
    for item in keep:
        for name in item.needs:
            wanted[name] = wanted.get(name, 0) + 1
    alive = {item.id for item in keep}
    going = True
    while going:
        going = False
        for item in reversed(keep):
            if total <= max_bytes:
                break
            if item.id in alive and item.id not in must_stay and not wanted.get(item.id):
                alive.discard(item.id)
                for name in item.needs:
                    wanted[name] -= 1
                total -= item.size
                going = True
    return [item for item in keep if item.id in alive]


def plan_sweep(
    stock: Stock, *, keep_days: float, max_bytes: int | None = None, keep_last: int = 0, kinds: Iterable[str] = ()
) -> Sweep:
    """What :func:`choose` says of the stock now, with what it frees; with ``kinds`` only things of these go."""
    chosen = choose(stock.items, now=time.time(), keep_days=keep_days, max_bytes=max_bytes, keep_last=keep_last)
    only = frozenset(kinds)
    remove = tuple(item for item in chosen.remove if not only or item.kind in only)
    gone = {item.id for item in remove}
    freed = stock.freed(gone)
    return Sweep(
        remove=remove,
        keep=tuple(item for item in stock.items if item.id not in gone),
        freed=freed,
        held=sum(item.size for item in remove) - freed,
    )


def sweep(store: Store, plan: Sweep) -> None:
    """Remove what ``plan`` says. Call only as the store's writer."""
    for item in plan.remove:
        path = Path(item.path)
        if path.is_dir():
            store.discard(path)
        else:
            path.unlink(missing_ok=True)
    for folder in LOOSE:
        root = store.root / folder
        for below in sorted(root.rglob("*"), reverse=True) if root.is_dir() else ():
            if below.is_dir() and not any(below.iterdir()):
                remove_tree(below)
