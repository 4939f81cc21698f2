"""Show what is in an image: layers, sizes, configuration, labels."""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("layout", type=Path, metavar="LAYOUT")
    parser.add_argument("--verify", action="store_true", help="read every layer and compare it with its digest")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Read the layout and print its facts."""
    from orbit.core.console import Console
    from orbit.image.inspect import inspect_layout, render

    facts = inspect_layout(args.layout, verify=args.verify, progress=Console())
    print_json(facts) if args.json else print(render(facts))
    return 0
