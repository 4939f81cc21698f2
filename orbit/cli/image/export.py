"""Write an image as one file: oci-archive, docker-archive, squashfs or sif. Equal images give equal files (not sif)."""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json
from orbit.cli.image import add_layout_argument
from orbit.core.amounts import format_bytes


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    from orbit.image.export import FORMATS

    add_layout_argument(parser)
    parser.add_argument("--format", choices=FORMATS, required=True, help="of the file")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the file; replaced in one step")
    parser.add_argument(
        "--tag", metavar="NAME:TAG", default="", help="name inside an archive (default: its own, latest)"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be written, and change nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Write it and say what it is."""
    from orbit.core.console import Console
    from orbit.image.export.formats import export_image, plan_export

    if args.dry_run:
        image, name, tool = plan_export(args.layout, args.format, args.out, args.tag)
        if args.json:
            plan = {"format": args.format, "out": args.out, "image": image.digest, "name": name, "tool": tool}
            print_json(plan)
            return 0
        print(f"{image.digest} as {args.format} into {args.out}{tool and f' with {tool}'}; nothing was changed")
        return 0
    result = export_image(args.layout, args.format, args.out, progress=Console(), name=args.tag)
    if args.json:
        print_json(result)
        return 0
    print(f"{result.out}  sha256:{result.sha256}  {format_bytes(result.bytes)}{result.tool and f'  ({result.tool})'}")
    return 0
