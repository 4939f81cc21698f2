"""Say in which members, sections and device images two wheels differ, and what made them differ where that can be
told. Exit status 1 when they differ.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from orbit.cli import add_json_option, print_json
from orbit.errors import ExitCode, InputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("left", type=Path, metavar="WHEEL", help="the one")
    parser.add_argument("right", type=Path, metavar="WHEEL", help="the other")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    from orbit.kernels.wheels.compare import compare_wheels
    from orbit.kernels.wheels.compare_text import render_comparison

    for path in (args.left, args.right):
        if not path.is_file():
            raise InputError(f"{path}: no such file", fix="give the paths of two wheels")
    found = compare_wheels(args.left, args.right)
    if args.json:
        print_json(found)
    else:
        print(render_comparison(found, color=sys.stdout.isatty()), end="")
    return ExitCode.OK if found.identical else ExitCode.FINDINGS
