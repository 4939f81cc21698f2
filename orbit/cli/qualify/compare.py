"""Compare two records of one frozen batch.

On one architecture every bit must be equal; across architectures the tokens must be, and log-probs and gradient norm
within the definition's tolerance. A path that is not repeatable on a side proves nothing and is counted apart. Exit
status: 0 equal or within, 1 a difference, 2 no two records of one batch, 3 nothing is proven.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json
from orbit.errors import InputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("records", type=Path, nargs="*", metavar="RECORD", help="two: the known one, the new one")
    parser.add_argument(
        "--definition", default="", metavar="FILE", help="whose tolerances count (default: ci/qualify, by name)"
    )
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the result and end")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    import sys

    from orbit.audit.reports.report import json_schema
    from orbit.qualify.compare import Comparison, compare, load_side
    from orbit.qualify.here import STATUS
    from orbit.qualify.model import load_definition
    from orbit.qualify.text import render_comparison

    if args.schema:
        sys.stdout.write(json_schema(Comparison).decode())
        return 0
    if len(args.records) != 2:
        raise InputError(f"two records are needed, and {len(args.records)} given", fix="orbit qualify compare A B")
    left, right = (load_side(path) for path in args.records)
    definition = load_definition(args.definition or left.record.definition.name)
    found = compare(left, right, definition)
    print_json(found) if args.json else sys.stdout.write(render_comparison(found))
    return STATUS[found.verdict]
