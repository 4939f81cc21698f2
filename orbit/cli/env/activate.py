"""Print the commands that activate an environment, for ``eval "$(orbit env activate PREFIX)"``."""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("prefix", type=Path, metavar="PREFIX", help="folder with bin/python3.12")
    parser.add_argument("--shell", choices=("sh", "fish"), default="sh", help="whose syntax (sh: also bash, zsh)")
    parser.add_argument("--state", metavar="DIR", help="folder for all that is written (default: $ORBIT_STATE)")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the commands, or every variable with its reason."""
    from orbit.env.activate import activation_of, default_state, render

    state = args.state or default_state()
    variables = activation_of(args.prefix, state)
    print_json(variables) if args.json else print(render(variables, state, args.shell), end="")
    return 0
