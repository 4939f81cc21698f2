"""Say exactly what runs here, or compare what ran elsewhere.

Without a file: image, lock, kernels, interpreter, driver and devices of this node; with ``--loaded`` also every library
that the stack maps into a process, and the versions these tell. With one file: that one against this node. With
several: those against each other. Exit status: 0 equal, 1 something differs that must not.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json
from orbit.errors import ExitCode, InputError

if TYPE_CHECKING:
    from orbit.launch.fingerprint.model import Fingerprint

HELP = "what exactly runs here: image, lock, kernels, libraries that are really mapped; or what differs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument(
        "files", type=Path, nargs="*", metavar="FILE", help="written by --json, or a node's report of orbit preflight"
    )
    parser.add_argument("--prefix", type=Path, metavar="PREFIX", help="the environment (default: the active one)")
    parser.add_argument("--loaded", action="store_true", help="load the stack and list what is mapped (seconds)")
    parser.add_argument("--read", action="store_true", help="read every file; believe no digest that is known already")
    parser.add_argument("--short", action="store_true", help="print one line for a log")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of a fingerprint and end")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Take or compare, and print."""
    import sys

    from orbit.launch.fingerprint.text import line, load, table

    if args.schema:
        from orbit.audit.reports.report import json_schema
        from orbit.launch.fingerprint.model import Fingerprint

        sys.stdout.write(json_schema(Fingerprint).decode())
        return 0
    if len(args.files) > 1 and (args.loaded or args.prefix):
        raise InputError(
            "--loaded and --prefix are about this node, and several files are compared with each other",
            fix="give one file to compare it with this node",
        )
    named = [(str(path), load(path)) for path in args.files]
    if len(named) > 1:
        return _compare(named, args)
    loaded = args.loaded or bool(named and named[0][1].libraries)
    here = _take(args, loaded=loaded)
    if named:
        return _compare([*named, ("this node", here)], args)
    if args.json:
        print_json(here)
    elif args.short:
        print(line(here))
    else:
        print("\n".join(table(here)))
    return 0


def _take(args: argparse.Namespace, *, loaded: bool) -> Fingerprint:
    import os

    from orbit.launch.fingerprint.take import own_prefix, take

    return take(args.prefix or own_prefix(os.environ), loaded=loaded, read=args.read)


def _compare(named: list[tuple[str, Fingerprint]], args: argparse.Namespace) -> int:
    from orbit.launch.fingerprint.compare import differences, groups, remarks

    found, more = differences(named), remarks(named)
    if args.json:
        together = [{"hosts": group.hosts, "agreed": group.one.agreed} for group in groups(named)]
        print_json({"groups": together, "differences": found, "remarks": more})
    else:
        print("\n".join(found) if found else f"all {len(named)} agree: {named[0][1].agreed[:12]}")
        print("".join(f"may differ: {text}\n" for text in more), end="")
    return ExitCode.FINDINGS if found else ExitCode.OK
