"""Make a folder in which docker builds the same image from containers/Dockerfile.

Then: DOCKER_BUILDKIT=1 docker build --network host --secret id=ca,src=BUNDLE DIR
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_limit_options, add_profile_option, add_tier_option, limit_of


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_profile_option(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", required=True)
    add_tier_option(parser)
    add_limit_options(parser)


def run(args: argparse.Namespace) -> int:
    """Build what is missing, then the folder."""
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.image.context import make_context
    from orbit.kernels.build import build_kernels
    from orbit.profile.model import load_profile

    profile, root, store, progress = load_profile(args.profile), checkout_root(), open_store(), Console()
    with store.writer("orbit image context"):
        store.sweep()
        wheels = build_kernels(profile, root, store, tier=args.kernels, progress=progress, limit=limit_of(args))
        print(make_context(profile, root, wheels, store, out=args.out.absolute(), progress=progress))
    return 0
