"""The main job: turn the lockfile into a verified, smoke-tested OCI image with evidence for every stage."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from orbit.cli import add_json_option, add_limit_options, add_profile_option, add_tier_option, limit_of
from orbit.cli.image.smoke import ENGINES

HELP = "lock check, kernels, environment, audit, image, smoke, evidence"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    add_profile_option(parser)
    add_json_option(parser)
    parser.add_argument("--dist", type=Path, default=Path("dist"), metavar="DIR", help="where runs go (default: dist)")
    add_tier_option(parser)
    add_limit_options(parser)
    parser.add_argument("--engine", choices=ENGINES, default="auto", help="where smoke checks run")
    parser.add_argument("--no-smoke", action="store_true", help="leave the smoke checks out (recorded as skipped)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be built, and change nothing")


def run(args: argparse.Namespace) -> int:
    """Ship, and print where the evidence is."""
    import msgspec

    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.image.base import require_base
    from orbit.profile.model import load_profile
    from orbit.ship import Options, plan, ship

    profile, root, store = load_profile(args.profile), checkout_root(), open_store()
    options = Options(kernels=args.kernels, limit=limit_of(args), engine=args.engine, smoke=not args.no_smoke)
    if args.dry_run:
        steps = plan(profile, root, store, options)
        if args.json:
            print(msgspec.json.format(msgspec.json.encode(steps), indent=2).decode())
        else:
            print("\n".join(f"{stage:12} {text}" for stage, text in steps.items()))
        return 0
    require_base(profile.image.base, store)
    summary = ship(profile, root, store, dist=args.dist.absolute(), options=options, progress=Console())
    folder = args.dist / summary.run
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(summary), indent=2).decode())
    else:
        print(
            f"{summary.profile}: {summary.result.value}\nimage    {summary.image_digest}\n"
            f"layout   {folder / 'image'}\nevidence {folder / 'summary.md'}",
            file=sys.stderr,
        )
    return 0
