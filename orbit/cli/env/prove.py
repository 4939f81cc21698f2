"""Prove an archive: unpack it under another path as another user, audit it, run the CPU checks in it.

What comes out is the evidence ``second-prefix`` of a release. Exit status: 0 proved, 1 something failed, 3 something
could not be looked at. Page: docs/env-archive.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("archive", type=Path, metavar="ARCHIVE", help="a file that `orbit env archive` made")
    parser.add_argument("--prefix", type=Path, metavar="DIR", required=True, help="where to unpack it: a new folder")
    parser.add_argument("--uid", type=int, metavar="N", help="as which user (default: nobody for root, else yourself)")
    parser.add_argument("--image", type=Path, metavar="LAYOUT", help="the image that must hold the same environment")
    parser.add_argument("--profile", metavar="NAME", help="whose rules and checks (default: the one the archive names)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the evidence to FILE (second-prefix.json)")
    parser.add_argument("--keep", action="store_true", help="leave the environment there")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Do it all and say what came of it."""
    from orbit.core.console import Console
    from orbit.core.records import dump_json
    from orbit.profile.model import load_profile
    from orbit.release.second_prefix import Request, prove

    request = Request(
        archive=args.archive,
        prefix=args.prefix,
        uid=args.uid,
        image=args.image,
        profile=load_profile(args.profile) if args.profile else None,
        keep=args.keep,
    )
    document = prove(request, progress=Console())
    if args.output:
        dump_json(args.output, document)
    if args.json:
        print_json(document)
        return document.exit_code
    for skip in document.skipped:
        print(f"skipped {skip.what}: {skip.reason}")
    checks = sum(len(run.results) for run in document.runs)
    print(
        f"environment {document.environment[:12]}, {document.prefix}, uid {document.uid}, {document.engine}: "
        f"{document.result.value}" + (f": {document.reason}" if document.reason else f", {checks} checks")
    )
    return document.exit_code
