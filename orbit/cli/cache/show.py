"""Show what the store holds: sizes with every file counted once, what needs what, and which layouts have its files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json
from orbit.core.amounts import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from orbit.core.holding import Holding


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("--items", action="store_true", help="list every thing, and what it needs")
    parser.add_argument(
        "--dist", type=Path, default=Path("dist"), metavar="DIR", help="where to look for layouts (default: dist)"
    )
    parser.add_argument("--shared", action="store_true", help="count what lies in $ORBIT_SHARED, too")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Take stock and print it."""
    import time

    from orbit.core.holding import survey
    from orbit.core.shared import shared_root
    from orbit.core.stock import take_stock
    from orbit.core.store import open_store

    store = open_store()
    stock = take_stock(store, shared=shared_root() if args.shared else None)
    holding = survey(stock, store.root, args.dist, items=args.items)
    print_json(holding) if args.json else print("\n".join(_lines(holding, time.time())))
    return 0


def _lines(holding: Holding, now: float) -> Iterator[str]:
    yield f"{'kind':<20} {'number':>7} {'size':>10} {'elsewhere':>10}  last used"
    for kind in holding.kinds:
        outside = format_bytes(kind.outside) if kind.outside else ""
        yield f"{kind.kind:<20} {kind.items:>7,} {format_bytes(kind.size):>10} {outside:>10}  {ago(now - kind.used)}"
    yield f"{holding.store}: {format_bytes(holding.size)}; {format_bytes(holding.free)} free on that disk"
    for layout in holding.layouts:
        yield f"{layout.path} has the files of {_counted(layout.items)}"
    for item in holding.items:
        needs = f"  needs {', '.join(map(_short, item.needs))}" if item.needs else ""
        yield f"  {_short(item.id):<34} {format_bytes(item.size):>10}  {ago(now - item.used)}{needs}"


def _counted(ids: Collection[str]) -> str:
    kinds = [name.partition("/")[0] for name in ids]
    return ", ".join(f"{kinds.count(kind)} x {kind}" for kind in sorted(set(kinds)))


def _short(name: str) -> str:
    kind, _, key = name.partition("/")
    return f"{kind}/{key[:12]}" if len(key) == 64 else name


def ago(seconds: float) -> str:
    """``3 min 07 s ago``, ``12 days ago``."""
    return f"{seconds / 86400:.0f} days ago" if seconds >= 2 * 86400 else f"{format_seconds(seconds)} ago"
