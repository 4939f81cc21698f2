"""Build the image of a profile without device code that none of its GPU targets can load, and say what that saved.

Nothing is taken from files whose licence forbids a changed copy or that were not proved on hardware, both listed in
kernels/slim.toml, unless --licensed or --unproved is given. A profile that always wants it says so: [image.slim].
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, add_limit_options, add_profile_option, add_tier_option, limit_of, print_json
from orbit.cli.image import default_layout
from orbit.cli.terminal import print_text


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_profile_option(parser)
    add_json_option(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="the layout (default: dist/image-PROFILE-slim)")
    add_tier_option(parser)
    add_limit_options(parser)
    parser.add_argument(
        "--ptx",
        choices=("keep", "newest", "drop"),
        default="keep",
        help="PTX beside machine code for every target: keep all (default), the newest, none",
    )
    parser.add_argument(
        "--others",
        choices=("leave", "one"),
        default="leave",
        help="containers without anything for a target: leave whole (default), or cut down to their smallest entry",
    )
    parser.add_argument("--unproved", action="store_true", help="also files that were not proved on hardware")
    parser.add_argument(
        "--licensed", action="store_true", help="also files whose licence forbids changed copies: you answer for that"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would go; no image is made")


def run(args: argparse.Namespace) -> int:
    """Make the plain and the slim image (what is in the store is reused) and compare them."""
    import msgspec

    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.env.create import create_environment
    from orbit.image.base import require_base
    from orbit.image.slim.report import render
    from orbit.image.slim.run import slim_image, slim_plan
    from orbit.kernels.build import build_kernels
    from orbit.profile.model import SlimPolicy, load_profile

    profile, root, store, progress = load_profile(args.profile), checkout_root(), open_store(), Console()
    policy = SlimPolicy(ptx=args.ptx, others=args.others, unproved=args.unproved, licensed=args.licensed)
    profile = msgspec.structs.replace(profile, image=msgspec.structs.replace(profile.image, slim=policy))
    out = (args.out or default_layout(f"{profile.name}-slim")).absolute()
    with store.writer("orbit image slim"):
        store.sweep()
        require_base(profile.image.base, store)
        wheels = build_kernels(profile, root, store, tier=args.kernels, progress=progress, limit=limit_of(args))
        environment = create_environment(profile, root, wheels, store, progress=progress)
        if args.dry_run:
            report = slim_plan(profile, environment, progress=progress)
        else:
            report = slim_image(profile, root, environment, wheels, store, out=out, progress=progress)
    print_json(report) if args.json else print_text(render(report))
    return 0
