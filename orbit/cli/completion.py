"""Print a completion script for your shell, e.g. ``source <(orbit completion bash)``."""

from __future__ import annotations

import argparse

HELP = "print a shell completion script"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="which shell the script is for")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from orbit.cli import build_parser

    print(shtab.complete(build_parser(), args.shell))
    return 0
