"""What the builds in this store took: wall and CPU seconds, memory, how full the cores were, the slowest units."""

from __future__ import annotations

import argparse

from orbit.cli import add_json_option, print_json
from orbit.errors import ExitCode, MissingError


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from orbit.core.store import cache_root
    from orbit.kernels.jobs.costs import cost_table, load_costs

    costs = load_costs(cache_root())
    if not costs:
        raise MissingError(f"{cache_root()}: nothing was built here yet", fix="orbit kernels build")
    if args.json:
        print_json(costs)
        return ExitCode.OK
    print(cost_table(costs))
    return ExitCode.OK
