"""Make room: wheels, sources, build environments, compiled units and logs that no build of this checkout needs and
nobody used for a while. What is removed is made or fetched again when it is needed. `orbit cache gc` does the same for
everything in the store.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_json_option, print_json
from orbit.cli.cache.gc import add_size_option, parse_days, parse_size, print_sweep
from orbit.errors import ExitCode


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument(
        "--keep-days", type=float, default=30, metavar="N", help="keep what was used in the last N days (default: 30)"
    )
    add_size_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would go and remove nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Take stock, choose, remove."""
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.kernels.gc import collect
    from orbit.kernels.needs import needed_entries

    limit, days = parse_size(args.max_size), parse_days(args.keep_days, "--keep-days")
    store = open_store()
    with store.writer("orbit kernels gc"):
        needed = needed_entries(checkout_root(), store)
        plan = collect(store, needed, keep_days=days, max_bytes=limit, dry_run=args.dry_run)
    print_json(plan) if args.json else print_sweep(plan, dry_run=args.dry_run)
    return ExitCode.OK
