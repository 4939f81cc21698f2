"""Make what the image has below its prefix, as a folder (used by the Dockerfile)."""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_profile_option


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_profile_option(parser)
    parser.add_argument("--wheels", type=Path, metavar="DIR", required=True, help="wheels of a build context")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="a new folder")


def run(args: argparse.Namespace) -> int:
    """Make the folder and print its path."""
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.image.context import make_tree, read_wheelhouse
    from orbit.profile.model import load_profile

    profile, root, store = load_profile(args.profile), checkout_root(), open_store()
    with store.writer("orbit image tree"):
        wheels = read_wheelhouse(args.wheels.absolute())
        print(make_tree(profile, root, wheels, store, out=args.out.absolute(), progress=Console()))
    return 0
