"""Run the frozen batch and write what it computed: each case twice, each time in a fresh process.

With ``--prefix`` in that environment, with its own Python and the variables of its activation; else with the Python
that runs Orbit. Inside an image: ``python3.12 -P -m orbit.qualify``. Exit status: 0 every required path is proven, 1 a
path failed, 3 none failed but a required one is not proven.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    from orbit.qualify.options import add_options

    add_options(parser)
    parser.add_argument("--prefix", type=Path, metavar="PREFIX", help="the environment that computes")
    parser.add_argument("--dry-run", action="store_true", help="say what would run, and where")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of a record and end")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Record, print, and tell the verdict by the status."""
    import sys

    from orbit.audit.reports.report import json_schema
    from orbit.qualify.here import STATUS, record_here
    from orbit.qualify.prefix import plan, record_in
    from orbit.qualify.records import Qualification
    from orbit.qualify.text import render_record

    if args.schema:
        sys.stdout.write(json_schema(Qualification).decode())
        return 0
    if args.dry_run:
        said = plan(args)
        print_json(said) if args.json else print("\n".join(f"{name}: {value}" for name, value in said.items()))
        return 0
    record = record_in(args.prefix, args) if args.prefix else record_here(args)
    print_json(record) if args.json else sys.stdout.write(render_record(record))
    return STATUS[record.verdict]
