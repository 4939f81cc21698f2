"""Say in what two images differ, and what made them differ: configuration, layers, and files by distribution, down to
the section of a binary and the kernel.

Layers with the same tar stream are not read. Exit status 1 when they differ.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_json_option, print_json
from orbit.cli.image import IMAGE
from orbit.cli.terminal import print_text
from orbit.errors import ExitCode, InputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument(
        "images", metavar="IMAGE", nargs="*", help=f"two of them, the old one and the new one: each {IMAGE}"
    )
    parser.add_argument("--quick", action="store_true", help="compare files by digest, do not look into them")
    parser.add_argument("--whole", action="store_true", help="compare the files of equal layers as well")
    parser.add_argument("--files", action="store_true", help="list every file and every part of it")
    parser.add_argument("--limit", type=int, metavar="N", help="files of a group, and parts of a file (default: 5)")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the result and end")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    import sys

    from orbit.audit.reports.report import json_schema
    from orbit.core.console import Console
    from orbit.core.store import cache_root
    from orbit.image.diff.records import ImageDiff
    from orbit.image.diff.run import Options, diff_images
    from orbit.image.diff.text import LIMIT, render

    if args.schema:
        sys.stdout.write(json_schema(ImageDiff).decode())
        return ExitCode.OK
    if len(args.images) != 2:
        raise InputError(f"two images are needed, and {len(args.images)} given", fix="orbit image diff A B")
    if args.limit is not None and args.limit < 0:
        raise InputError(f"--limit {args.limit}: not a number of files", fix="--files lists all")
    options = Options(whole=args.whole, quick=args.quick, cache=cache_root() / "facts")
    left, right = args.images
    found = diff_images(left, right, options, Console())
    if args.json:
        print_json(found)
    else:
        limit = None if args.files else LIMIT if args.limit is None else args.limit
        print_text(render(found, limit=limit, color=sys.stdout.isatty()))
    return ExitCode.OK if found.equal else ExitCode.FINDINGS
