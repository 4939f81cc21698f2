"""What ``orbit kernels build`` would do. Builds and fetches nothing."""

from __future__ import annotations

import argparse

from orbit.cli import add_json_option, add_profile_option, add_tier_option, print_json
from orbit.errors import ExitCode


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_tier_option(parser)
    add_profile_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Make the plan and print it."""
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.kernels.plan import make_plan
    from orbit.profile.model import load_profile

    plan = make_plan(load_profile(args.profile), checkout_root(), open_store(), tier=args.kernels)
    if args.json:
        print_json(plan)
        return ExitCode.OK
    for item in plan.items:
        state = "in the store" if item.cached else f"to build, about {item.recipe.core_hours:g} core-hours"
        print(f"{item.recipe.name} {item.source.version}: {', '.join(real for _, real in item.pairs)}; {state}")
    for check in plan.checks:
        state = "verified" if check.cached else "to verify"
        print(f"{check.recipe.name} {check.source.version}: {check.recipe.mode}, never compiled; {state}")
    for skip in plan.skipped:
        print(f"{skip.what}: skipped ({skip.reason})")
    return ExitCode.OK
