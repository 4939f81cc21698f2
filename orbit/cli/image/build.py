"""Lockfile -> kernels -> environment -> OCI layout; what is there is reused. Needs no container engine."""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, add_limit_options, add_profile_option, add_tier_option, limit_of, print_json
from orbit.cli.image import default_layout
from orbit.core.amounts import format_bytes


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_profile_option(parser)
    add_json_option(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="the layout (default: dist/image-PROFILE)")
    add_tier_option(parser)
    add_limit_options(parser)
    parser.add_argument(
        "--compression", choices=("zstd", "gzip"), default="zstd", help="gzip: for tools that know no zstd layers"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what the image would be, and change nothing")


def run(args: argparse.Namespace) -> int:
    """Build what is missing, then the image."""
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.env.create import create_environment
    from orbit.image.base import require_base
    from orbit.image.build import build_image
    from orbit.image.layers import layer_names
    from orbit.kernels.build import build_kernels
    from orbit.profile.model import load_profile

    profile, root, store = load_profile(args.profile), checkout_root(), open_store()
    out = (args.out or default_layout(profile.name)).absolute()
    if args.dry_run:
        layers = ", ".join(["base", *layer_names(profile.image.layers), "orbit"])
        if args.json:
            print_json({"image": profile.image.name, "layout": out, "layers": layers.split(", ")})
        else:
            print(f"{profile.image.name} into {out}\nlayers: {layers}\nnothing was changed")
        return 0
    progress = Console()
    with store.writer("orbit image build"):
        store.sweep()
        require_base(profile.image.base, store)
        wheels = build_kernels(profile, root, store, tier=args.kernels, progress=progress, limit=limit_of(args))
        environment = create_environment(profile, root, wheels, store, progress=progress)
        image = build_image(
            profile, root, environment, wheels, store, out=out, progress=progress, codec=args.compression
        )
    if args.json:
        print_json(image)
        return 0
    for layer in image.layers:
        state = "reused" if layer.reused else "written"
        print(f"{layer.name:18} {format_bytes(layer.size):>9}  {layer.digest[7:19]}  {state}")
    print(f"image  {image.digest}\nlayout {image.layout}")
    return 0
