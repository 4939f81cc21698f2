"""Show what is in an image and what fills it: layers, distributions, packages, device code, duplicates, configuration.

Layers are read once and remembered.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json
from orbit.cli.image import IMAGE
from orbit.cli.terminal import print_text
from orbit.errors import InputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("image", metavar="IMAGE", nargs="?", help=IMAGE)
    parser.add_argument("--brief", action="store_true", help="documents only: layers and configuration, at once")
    parser.add_argument("--verify", action="store_true", help="read every layer and compare it with its digest")
    parser.add_argument("--limit", type=int, metavar="N", help="rows of each list (default: 15; 0: all)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with a treemap")
    parser.add_argument("--profile", metavar="NAME", help="whose targets use device code (default: the image's labels)")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the result and end")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Look into the image and print its facts."""
    import sys

    from orbit.audit.reports.report import json_schema
    from orbit.core.console import Console
    from orbit.core.files import write_atomic
    from orbit.core.store import cache_root
    from orbit.image.inspect.look import look
    from orbit.image.inspect.records import Inspection
    from orbit.image.inspect.text import LIMIT, render
    from orbit.profile.model import load_profile

    if args.schema:
        sys.stdout.write(json_schema(Inspection).decode())
        return 0
    if args.image is None:
        raise InputError("no image is named", fix="orbit image inspect LAYOUT, or docker-daemon:NAME")
    if args.limit is not None and args.limit < 0:
        raise InputError(f"--limit {args.limit}: not a number of rows", fix="0 shows all")
    if args.html is not None and args.brief:
        raise InputError("--html shows what fills the image, and --brief does not look", fix="leave one of them out")
    found = look(
        args.image,
        profile=load_profile(args.profile) if args.profile else None,
        cache=cache_root() / "facts",
        brief=args.brief,
        verify=args.verify,
        progress=Console(),
    )
    if args.html is not None:
        from orbit.image.inspect.page import to_html

        write_atomic(args.html, to_html(found))
    limit = LIMIT if args.limit is None else args.limit or None
    print_json(found.facts) if args.json else print_text(render(found.facts, limit=limit))
    return 0
