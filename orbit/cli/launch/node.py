"""One node of a job: checks it, meets the others, has Ray up, runs the command on the first node, clears up.

What every container of a job runs; `orbit launch render` writes the call. Exit status: that of the command, on every
node; 0 for a node that was left out; 1 unfit nodes stop the job; 3 a node is missing or was lost, or Ray is not up;
128 + the signal when it was told to end. Page: docs/launch-node.md.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_json_option, print_json
from orbit.launch.node.flags import add_flags


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_flags(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what this node would do, and end")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Read the order and live through the job."""
    import os

    from orbit.launch.node.options import from_args
    from orbit.launch.node.program import check_order, run_node

    order = from_args(args)
    plan = check_order(order, os.environ)
    if args.dry_run:
        print_json(plan) if args.json else print("\n".join(f"{name}: {value}" for name, value in plan.items()))
        return 0
    if order.join:
        from orbit.launch.ray.join import run_joined

        run_joined(order, dict(os.environ))
    return run_node(order, dict(os.environ))
