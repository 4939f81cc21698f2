"""Put a layout into docker, podman or containerd, verified on the way and afterwards."""

from __future__ import annotations

import argparse

from orbit.cli import add_json_option, add_profile_option, print_json
from orbit.cli.image import add_layout_argument, default_layout


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_layout_argument(parser, default="dist/image-PROFILE")
    add_profile_option(parser)
    parser.add_argument("--tag", metavar="NAME:TAG", help="default: the image's own name, with the tag latest")
    parser.add_argument(
        "--engine",
        choices=("auto", "docker", "podman", "containerd"),
        default="auto",
        help="auto: the first that answers (default)",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be loaded where, and change nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Load it and say what the engine has now."""
    from orbit.core.console import Console
    from orbit.image.export.formats import check_name, image_name
    from orbit.image.load import choose_engine, load_into, require
    from orbit.image.oci import read_layout

    path = args.layout or default_layout(args.profile)
    layout = read_layout(path)
    tag, engine = check_name(args.tag or image_name(layout)), choose_engine(args.engine)
    if args.dry_run:
        version = require(engine)[1]
        if args.json:
            print_json({"engine": engine, "id": layout.manifest.config.digest, "tag": tag, "version": version})
            return 0
        print(f"{layout.manifest.config.digest} as {tag} into {engine} {version}; nothing was changed")
        return 0
    loaded = load_into(engine, path, tag=tag, progress=Console())
    if args.json:
        print_json(loaded)
        return 0
    how = "was there already" if loaded.reused else "loaded"
    print(f"{loaded.tag}  {loaded.id}  ({how}, {loaded.kind} {loaded.engine}, {len(loaded.diff_ids)} layers equal)")
    return 0
