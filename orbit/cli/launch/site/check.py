"""What contradicts itself in a site file. Exit status: 0 nothing, 1 something, 2 a wrong key or no TOML at all."""

from __future__ import annotations

import argparse

from orbit.cli import add_json_option, print_json
from orbit.errors import ExitCode


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("site", metavar="SITE", help="a shipped site by name, or the path of a file")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Check and print."""
    from orbit.launch.site.check import problems
    from orbit.launch.site.model import read_site, site_path

    found = problems(read_site(args.site))
    path = site_path(args.site)
    if args.json:
        print_json({"site": path, "problems": [{"what": what, "fix": fix} for what, fix in found]})
    elif found:
        print("\n".join(f"{path}: {what}\n  fix: {fix}" for what, fix in found))
    else:
        print(f"{path}: nothing contradicts itself")
    return ExitCode.FINDINGS if found else ExitCode.OK
