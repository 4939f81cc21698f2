"""A store at a glance: its kinds of things, and the image layouts that have files of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from orbit.core.records import Record
from orbit.core.stock import Item, Stock

DEPTH = 3
"""Layouts are looked for so many folders deep."""


class Kind(Record, frozen=True, kw_only=True):
    """All things of one kind."""

    kind: str
    items: int
    size: int
    """Bytes on disk, every file counted once."""
    outside: int
    """Bytes of them that names outside the store have as well: removing the things does not free them."""
    used: float
    """When one of them was last used, seconds since the epoch."""


class Linked(Record, frozen=True, kw_only=True):
    """An image layout whose blobs are the store's."""

    path: str
    items: tuple[str, ...]
    """``kind/name``."""


class Holding(Record, frozen=True, kw_only=True):
    """What the store holds."""

    store: str
    size: int
    free: int
    """Bytes free on that disk."""
    kinds: tuple[Kind, ...]
    layouts: tuple[Linked, ...]
    items: tuple[Item, ...] = ()
    """With ``--items``."""


def survey(stock: Stock, root: Path, dist: Path, *, items: bool = False) -> Holding:
    """What the store at ``root`` holds by its ``stock``, and which layouts below ``dist`` have its files."""
    there = next(place for place in (root, *root.parents) if place.is_dir())
    return Holding(
        store=str(root),
        size=sum(item.size for item in stock.items),
        free=shutil.disk_usage(there).free,
        kinds=tuple(_kinds(stock)),
        layouts=tuple(_layouts(stock, dist)),
        items=stock.items if items else (),
    )


def _kinds(stock: Stock) -> Iterator[Kind]:
    for kind in sorted({item.kind for item in stock.items}):
        items = [item for item in stock.items if item.kind == kind]
        yield Kind(
            kind=kind,
            items=len(items),
            size=sum(item.size for item in items),
            outside=stock.outside({item.id for item in items}),
            used=max(item.used for item in items),
        )


def _layouts(stock: Stock, dist: Path) -> Iterator[Linked]:
    marks = sorted({mark.resolve() for depth in range(1, DEPTH + 1) for mark in dist.glob("*/" * depth + "oci-layout")})
    for mark in marks:
        if found := stock.of_layout(mark.parent):
            yield Linked(path=str(mark.parent), items=tuple(sorted(found)))
