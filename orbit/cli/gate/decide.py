"""Judge the evidence of a run: is this image a release? Reads and hashes; builds nothing, changes nothing.

Exit status 0 only when it is one; 1 when the evidence says no, or is not there. Page: docs/gate.md.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_json_option, print_json
from orbit.cli.gate.options import add_evidence_option, add_run_options, gate_of, show
from orbit.errors import ExitCode


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_run_options(parser)
    add_evidence_option(parser)
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the decision and end")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Decide and print."""
    import datetime as dt
    import sys

    from orbit.release.gate.decide import Decision

    if args.schema:
        from orbit.audit.reports.report import json_schema

        sys.stdout.write(json_schema(Decision).decode())
        return ExitCode.OK
    gate = gate_of(args)
    decision = gate.decide(dt.datetime.now(dt.UTC))
    if args.json:
        print_json(decision)
    else:
        show(decision, gate)
    return ExitCode.OK if decision.release else ExitCode.FINDINGS
