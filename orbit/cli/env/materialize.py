"""Put files in the place of links into a cache, so that an environment no longer needs it.

For any environment, also one that uv made with UV_LINK_MODE=symlink or with hard links. Links inside stay as they are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json
from orbit.errors import InputError

NOTHING = "nothing to do: nothing lies in a cache"


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("prefix", type=Path, metavar="PREFIX", help="folder of an environment, whoever made it")
    parser.add_argument(
        "--cache", type=Path, action="append", default=[], metavar="DIR",
        help="a folder that is a cache, beside uv's and those with a CACHEDIR.TAG (may be repeated)",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, metavar="N", help="files copied at once (default: cores, at most 16)")
    parser.add_argument("--dry-run", action="store_true", help="list what lies in caches and change nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Copy what has to be copied and say so."""
    from orbit.core.amounts import format_bytes
    from orbit.core.console import Console
    from orbit.env.materialize import check_environment, materialize, refuse_dangling, survey

    if args.jobs is not None and args.jobs < 1:
        raise InputError(f"--jobs {args.jobs}: at least one is needed", fix="leave it out")
    if args.dry_run:
        root = check_environment(args.prefix)
        found = survey(root, args.cache)
        refuse_dangling(root, found)
        if args.json:
            print_json(found)
            return 0
        for link in found.links:
            print(f"{link.path} -> {link.target}" if link.target else f"{link.path} (hard link)")
        size = format_bytes(sum(link.size for link in found.links))
        print(f"would copy {len(found.links)} paths, {size}" if found.links else NOTHING)
        return 0
    done = materialize(args.prefix, args.cache, jobs=args.jobs, progress=Console())
    if args.json:
        print_json(done)
        return 0
    for text in done.kept:
        print(f"kept {text} (leads out, but into no cache)")
    if not done.links and not done.hard_links:
        print(NOTHING)
        return 0
    print(f"{done.links} links and {done.hard_links} shared files are files of its own now, {format_bytes(done.bytes)}")
    return 0
