"""Make room: wheels, sources, build environments, compiled units and logs that no build of this checkout needs and
nobody used for a while. What is removed is made or fetched again when it is needed.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict

from orbit.cli import add_json_option, print_json
from orbit.errors import ExitCode, InputError

SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT])", re.IGNORECASE)
UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument(
        "--keep-days", type=float, default=30, metavar="N", help="keep what was used in the last N days (default: 30)"
    )
    parser.add_argument("--max-size", metavar="20G", help="then remove the least recently used until this much is left")
    parser.add_argument("--dry-run", action="store_true", help="say what would go and remove nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Take stock, choose, remove."""
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.kernels.gc import collect
    from orbit.kernels.needs import needed_entries

    limit = parse_size(args.max_size)
    if not args.keep_days >= 0:
        raise InputError(f"--keep-days {args.keep_days:g}: not a time", fix="a number from 0: --keep-days 7")
    store = open_store()
    with store.writer("orbit kernels gc"):
        plan = collect(
            store,
            needed_entries(checkout_root(), store),
            keep_days=args.keep_days,
            max_bytes=limit,
            dry_run=args.dry_run,
        )
    if args.json:
        print_json(plan)
        return ExitCode.OK
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for column, items in ((0, plan.keep), (2, plan.remove)):
        for item in items:
            rows[item.kind][column] += 1
            rows[item.kind][column + 1] += item.size
    for kind, (kept, kept_bytes, gone, gone_bytes) in sorted(rows.items()):
        print(f"{kind:<12} kept {kept:>6} ({_size(kept_bytes)}), removed {gone:>6} ({_size(gone_bytes)})")
    word = "would be freed" if args.dry_run else "freed"
    print(f"{_size(plan.freed())} {word}")
    return ExitCode.OK


def parse_size(text: str | None) -> int | None:
    """``20G`` in bytes (powers of 1024); None for None. Raises :class:`InputError`."""
    if text is None:
        return None
    found = SIZE.fullmatch(text)
    if found is None:
        raise InputError(f"--max-size {text}: not a size", fix="a number and K, M, G or T: --max-size 20G")
    return int(float(found[1]) * 2 ** UNITS[found[2].upper()])


def _size(count: int) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
