"""Make a folder in which docker builds the same image from containers/Dockerfile.

Then: DOCKER_BUILDKIT=1 docker build --network host --secret id=ca,src=BUNDLE DIR
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, add_limit_options, add_profile_option, add_tier_option, limit_of, print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_profile_option(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="the folder; replaced in one step")
    add_tier_option(parser)
    add_limit_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what the folder would be for, and change nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Build what is missing, then the folder."""
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.image.base import require_base
    from orbit.image.context import check_context, make_context
    from orbit.kernels.build import build_kernels
    from orbit.profile.model import load_profile

    profile, root, store, progress = load_profile(args.profile), checkout_root(), open_store(), Console()
    out, said = args.out.absolute(), {"profile": profile.name, "context": args.out.absolute()}
    if args.dry_run:
        check_context(profile, out)
        print_json(said) if args.json else print(
            f"a build context for {profile.image.name} in {out}\nnothing was changed"
        )
        return 0
    with store.writer("orbit image context"):
        store.sweep()
        require_base(profile.image.base, store)
        wheels = build_kernels(profile, root, store, tier=args.kernels, progress=progress, limit=limit_of(args))
        make_context(profile, root, wheels, store, out=out, progress=progress)
    print_json(said) if args.json else print(out)
    return 0
