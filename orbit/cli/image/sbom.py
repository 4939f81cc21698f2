"""Say what an image holds, as a bill of materials (CycloneDX 1.6, SPDX 2.3), and whether that is all that should be in
it: distributions, Debian packages, libraries, kernels, counted against each other. With --licenses: who must read what.

Layers are read once and remembered. Exit status 1 when something is missing, or is there and recorded nowhere.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json
from orbit.cli.image import IMAGE
from orbit.cli.terminal import print_text
from orbit.errors import ExitCode, InputError

if TYPE_CHECKING:
    from orbit.release.sbom.model import Inventory

FORMATS = ("cyclonedx", "spdx")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("image", metavar="IMAGE", nargs="?", help=IMAGE)
    parser.add_argument("--format", choices=FORMATS, help="which document (default with --out: cyclonedx)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the document there (default: to stdout)")
    parser.add_argument("--dry-run", action="store_true", help="with --out: look and count, write nothing")
    parser.add_argument("--licenses", action="store_true", help="list licences and the places of their texts instead")
    parser.add_argument(
        "--strict", action="store_true", help="with --licenses: unknown and denied licences are findings"
    )
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the result and end")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Look into the image, write or print."""
    import sys

    from orbit.audit.reports.report import json_schema
    from orbit.core.console import Console
    from orbit.core.files import write_atomic
    from orbit.core.store import cache_root
    from orbit.release.sbom.inventory import take_inventory
    from orbit.release.sbom.report import LicenceReport, render_summary
    from orbit.release.sbom.write import SbomResult, render, summarise

    if args.schema:
        sys.stdout.write(json_schema(LicenceReport if args.licenses else SbomResult).decode())
        return ExitCode.OK
    _check(args)
    inventory = take_inventory(args.image, cache=cache_root() / "facts", progress=Console())
    if args.licenses:
        return _licences(args, inventory)
    form = args.format or "cyclonedx"
    if args.out is not None and not args.dry_run:
        write_atomic(args.out, render(inventory, form))
    result = summarise(inventory, {form: args.out} if args.out is not None and not args.dry_run else {})
    if args.format and args.out is None:
        sys.stdout.write(render(inventory, form).decode())
        sys.stderr.write(render_summary(result))
    elif args.json:
        print_json(result)
    else:
        print_text(render_summary(result))
    return ExitCode.FINDINGS if any(finding.fatal for finding in result.findings) else ExitCode.OK


def _check(args: argparse.Namespace) -> None:
    """Raise :class:`InputError` for options that contradict each other."""
    if args.image is None:
        raise InputError("no image is named", fix="orbit image sbom LAYOUT, or docker-daemon:NAME")
    if args.licenses and (args.format or args.out):
        raise InputError("--licenses prints a list and writes no document", fix="leave out --format and --out")
    if args.strict and not args.licenses:
        raise InputError("--strict is about licences", fix="orbit image sbom IMAGE --licenses --strict")
    if args.json and args.format and args.out is None:
        raise InputError(
            "--json prints the counts and --format the document, both to stdout", fix="give --out FILE, or one of them"
        )
    if args.out is not None and args.out.is_dir():
        raise InputError(f"{args.out}: a folder", fix="name the file to write")


def _licences(args: argparse.Namespace, inventory: Inventory) -> int:
    from orbit.release.sbom.report import licence_report, render_licences

    report = licence_report(inventory, strict=args.strict)
    print_json(report) if args.json else print_text(render_licences(report))
    return ExitCode.FINDINGS if any(finding.fatal for finding in report.findings) else ExitCode.OK
