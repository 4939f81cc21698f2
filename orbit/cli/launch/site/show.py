"""The shipped sites, a line for each; with a name or a path that site, as TOML without comments and defaults."""

from __future__ import annotations

import argparse

from orbit.cli import add_json_option, print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("site", nargs="?", default="", metavar="SITE", help="a shipped site by name, or a file's path")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of a site and end")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print."""
    import sys

    from orbit.launch.site.model import Site, read_site, site_names
    from orbit.launch.site.text import render_site

    if args.schema:
        from orbit.audit.reports.report import json_schema

        sys.stdout.write(json_schema(Site).decode())
    elif args.site:
        site = read_site(args.site)
        print_json(site) if args.json else sys.stdout.write(render_site(site))
    else:
        sites = [read_site(name) for name in site_names()]
        if args.json:
            print_json([{"name": site.name, "description": site.description} for site in sites])
        else:
            width = max(len(site.name) for site in sites)
            print("\n".join(f"{site.name:<{width}}  {site.description}" for site in sites))
    return 0
