"""Make room in the store: what nobody used for a while and nothing that stays needs, of all kinds or of some.

Kept are what a build of this checkout would use now for its kernels, the last builds (--keep-last), what was used
lately (--older-than), and all that any of these needs. What is removed is made or fetched again when it is needed.
No other Orbit may be at work in the store meanwhile. Layouts in dist/ lose nothing: they have names of their own for
the files.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json
from orbit.core.amounts import format_bytes
from orbit.errors import ExitCode, InputError

if TYPE_CHECKING:
    from orbit.core.gc import Sweep
    from orbit.core.store import Store

SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT])", re.IGNORECASE)
UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
DAYS = 30.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument(
        "--older-than",
        type=float,
        default=DAYS,
        metavar="DAYS",
        help=f"what nobody used for so long goes (default: {DAYS:.0f})",
    )
    parser.add_argument(
        "--keep-last",
        type=int,
        default=1,
        metavar="N",
        help="environments and bases that stay whatever their age, the last used first (default: 1)",
    )
    add_size_option(parser)
    parser.add_argument("--kind", action="append", metavar="KIND", help="only things of this kind (may be repeated)")
    parser.add_argument("--shared", action="store_true", help="clean $ORBIT_SHARED, too: others may use it")
    parser.add_argument("--dry-run", action="store_true", help="say what would go and remove nothing")
    add_json_option(parser)


def add_size_option(parser: argparse.ArgumentParser) -> None:
    """``--max-size``, the same everywhere."""
    parser.add_argument("--max-size", metavar="20G", help="then remove the least recently used until this much is left")


def run(args: argparse.Namespace) -> int:
    """Take stock, choose, remove."""
    from orbit.core.gc import plan_sweep, sweep
    from orbit.core.shared import shared_root
    from orbit.core.stock import take_stock
    from orbit.core.store import open_store

    limit, days = parse_size(args.max_size), parse_days(args.older_than, "--older-than")
    if args.keep_last < 0:
        raise InputError(f"--keep-last {args.keep_last}: not a number of builds", fix="a number from 0")
    if args.shared and shared_root() is None:
        raise InputError("--shared: ORBIT_SHARED names no folder", fix="set it, or leave --shared out")
    store = open_store()
    with store.writer("orbit cache gc"):
        store.sweep()
        stock = take_stock(store, _needed(store), shared=shared_root() if args.shared else None)
        known = {item.kind for item in stock.items}
        if unknown := sorted(set(args.kind or ()) - known):
            raise InputError(f"--kind {unknown[0]}: nothing of that kind", fix=f"there is: {', '.join(sorted(known))}")
        plan = plan_sweep(stock, keep_days=days, max_bytes=limit, keep_last=args.keep_last, kinds=args.kind or ())
        if not args.dry_run:
            sweep(store, plan)
    print_json(plan) if args.json else print_sweep(plan, dry_run=args.dry_run)
    return ExitCode.OK


def _needed(store: Store) -> frozenset[tuple[str, str]]:
    """What this checkout's kernels would use; nothing is known of that in an installed copy."""
    from orbit.core.paths import data_root
    from orbit.kernels.needs import needed_entries

    root = data_root()
    return needed_entries(root, store) if (root / "uv.lock").is_file() else frozenset()


def print_sweep(plan: Sweep, *, dry_run: bool) -> None:
    """A line for each kind, and what it comes to."""
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for column, items in ((0, plan.keep), (2, plan.remove)):
        for item in items:
            rows[item.kind][column] += 1
            rows[item.kind][column + 1] += item.size
    would = "would go" if dry_run else "removed"
    for kind, (kept, kept_bytes, gone, gone_bytes) in sorted(rows.items()):
        print(f"{kind:<20} {kept:>6} kept ({format_bytes(kept_bytes)}), {gone:>6} {would} ({format_bytes(gone_bytes)})")
    held = f"; {format_bytes(plan.held)} more are not, layouts and what stays have these files" if plan.held else ""
    print(f"{format_bytes(plan.freed)} {'would be freed' if dry_run else 'freed'}{held}")


def parse_size(text: str | None) -> int | None:
    """``20G`` in bytes (powers of 1024); None for None. Raises :class:`InputError`."""
    if text is None:
        return None
    found = SIZE.fullmatch(text)
    if found is None:
        raise InputError(f"--max-size {text}: not a size", fix="a number and K, M, G or T: --max-size 20G")
    return int(float(found[1]) * 2 ** UNITS[found[2].upper()])


def parse_days(days: float, option: str) -> float:
    """``days`` again. Raises :class:`InputError` for what is no time."""
    if not days >= 0:
        raise InputError(f"{option} {days:g}: not a time", fix=f"a number of days from 0: {option} 7")
    return days
