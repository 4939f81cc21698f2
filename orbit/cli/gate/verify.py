"""Verify a release bundle, offline: who signed it, whether it is whole, and what is proven of what it claims.

BUNDLE is the folder or its .tar file. --key is the public key of whoever publishes the image, had from elsewhere; give
it again for each machine whose evidence you want to check yourself. --image holds an image on this machine, or the
digest you pulled, against the released one. Page: docs/release.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json
from orbit.errors import InputError

SCHEMAS = ("bundle", "report")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", nargs="?", help="the folder, or its .tar file")
    parser.add_argument(
        "--key", type=Path, action="append", default=[], metavar="FILE", help="public key to trust (may be repeated)"
    )
    parser.add_argument(
        "--trust", type=Path, metavar="FILE", help="keys and identities to trust, as a TOML file of rows [[trust]]"
    )
    parser.add_argument("--image", metavar="IMAGE", help="layout, archive or digest that has to be the released image")
    parser.add_argument("--schema", choices=SCHEMAS, help="print a JSON schema (of bundle.json, of --json) and end")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Judge it and say so; the exit status is the verdict's."""
    import datetime as dt
    import sys

    if args.schema:
        from orbit.audit.reports.report import json_schema
        from orbit.release.bundle.model import Index
        from orbit.release.bundle.report import Answer

        sys.stdout.write(json_schema(Index if args.schema == "bundle" else Answer).decode())
        return 0
    if args.bundle is None:
        raise InputError("no bundle is named", fix="orbit gate verify BUNDLE --key PUBLISHER.pub")
    from orbit.core.console import Console
    from orbit.release.bundle.report import Answer, render
    from orbit.release.bundle.verify import trust_in, verify_bundle

    trust = trust_in(args.key, args.bundle, args.trust)
    report = verify_bundle(args.bundle, trust, now=dt.datetime.now(dt.UTC), image=args.image, progress=Console())
    if args.json:
        print_json(Answer(verdict=report.verdict, report=report))
    else:
        sys.stdout.write(render(report) + "\n")
    return report.exit_code
