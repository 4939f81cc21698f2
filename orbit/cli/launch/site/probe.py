"""Fill in a site file from what this node shows: run it in a job, inside the container that jobs will have.

TOML goes to stdout. Each value has a comment that says how it was found; ``NOT FOUND:`` begins those that a node cannot
show, which a person must settle. Nothing is changed on the node: a small file is written to each mount, locked and
removed. GPUs are asked, and CUDA IPC is tried through torch where it is installed (seconds). Page: docs/site.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json

SCHEDULERS = ("docker", "kubernetes", "htcondor", "slurm")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("--scheduler", choices=SCHEDULERS, default="", help="what starts jobs (default: found out)")
    parser.add_argument("--name", default="", metavar="NAME", help="of the site")
    parser.add_argument("--folder", default="", metavar="FOLDER", help="try this one where a mount's top is not yours")
    parser.add_argument("--no-devices", action="store_true", help="do not ask the GPUs, and do not load torch")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the file there (default: print it)")
    parser.add_argument("--dry-run", action="store_true", help="with --out: print it, and write nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Probe and print."""
    import os
    import sys

    from orbit.core.files import write_atomic
    from orbit.launch.site.check import NAME
    from orbit.launch.site.facts import read_facts
    from orbit.launch.site.probe import find_scheduler, head, probe
    from orbit.launch.site.text import render_site

    if args.name and not NAME.match(args.name):
        from orbit.errors import InputError

        raise InputError(f"--name {args.name}", fix="a-z, 0-9 and '-', at most 63")
    scheduler, _how = find_scheduler(os.environ, args.scheduler)
    facts = read_facts(os.environ, devices=not args.no_devices, folder=args.folder)
    found = probe(facts, scheduler=args.scheduler, name=args.name)
    text = render_site(found.site, found.notes, head=head(found))
    if args.out and not args.dry_run:
        write_atomic(args.out, text.encode())
    if args.json:
        print_json({"site": found.site, "notes": found.notes, "open": found.open, "left_out": found.left_out})
    elif args.dry_run or not args.out:
        sys.stdout.write(text)
    print(f"orbit: {scheduler}: {len(found.open)} values must be settled by hand (NOT FOUND)", file=sys.stderr)
    return 0
