"""Make what the image has below its prefix, as a folder (used by the Dockerfile)."""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, add_profile_option, print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_profile_option(parser)
    parser.add_argument("--wheels", type=Path, metavar="DIR", required=True, help="wheels of a build context")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="a new folder")
    parser.add_argument("--dry-run", action="store_true", help="say what would be made, and change nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Make the folder and print its path."""
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.image.context import make_tree, read_wheelhouse
    from orbit.profile.model import load_profile

    profile, root, store = load_profile(args.profile), checkout_root(), open_store()
    wheels, out = read_wheelhouse(args.wheels.absolute()), args.out.absolute()
    if not args.dry_run:
        with store.writer("orbit image tree"):
            make_tree(profile, root, wheels, store, out=out, progress=Console())
    if args.json:
        print_json({"profile": profile.name, "tree": out, "wheels": len(wheels.wheels)})
    elif args.dry_run:
        print(f"the tree of {profile.image.name} with {len(wheels.wheels)} wheels in {out}\nnothing was changed")
    else:
        print(out)
    return 0
