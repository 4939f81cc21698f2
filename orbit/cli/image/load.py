"""Put a layout into a docker engine, verified on the way and afterwards."""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, add_profile_option, print_json
from orbit.cli.image import default_layout


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("layout", type=Path, metavar="LAYOUT", nargs="?", help="default: dist/image-PROFILE")
    add_profile_option(parser)
    parser.add_argument("--tag", metavar="NAME:TAG", help="default: the image's own name, with the tag latest")
    parser.add_argument("--dry-run", action="store_true", help="say what would be loaded where, and change nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Load it and say what the engine has now."""
    from orbit.core.console import Console
    from orbit.image.docker import load_image, require_engine
    from orbit.image.oci import read_layout

    path = args.layout or default_layout(args.profile)
    layout = read_layout(path)
    title = layout.config.config.labels.get("org.opencontainers.image.title", "orbit/image")
    tag = args.tag or f"{title}:latest"
    if args.dry_run:
        engine = require_engine()
        print(f"{layout.manifest.config.digest} as {tag} into docker {engine.version}; nothing was changed")
        return 0
    loaded = load_image(path, tag=tag, progress=Console())
    if args.json:
        print_json(loaded)
        return 0
    how = "was there already" if loaded.reused else "loaded"
    print(f"{loaded.tag}  {loaded.id}  ({how}, docker {loaded.engine}, {len(loaded.diff_ids)} layers equal)")
    return 0
