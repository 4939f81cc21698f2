"""Prove an installed environment without running anything in it.

Reads every file's headers, hashes and mode bits: device code for every target of the profile, package integrity,
links, versioned symbols, needed libraries, interpreter tags. Needs no GPU and no CUDA toolkit. Exit status 0 when
clean, 1 with findings, 2 when ENV is not an environment.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "prove an environment: device code, integrity, symbols"
MAX_UID = 2**32 - 2
"""Linux user ids; the number above means nobody in particular to the kernel."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``orbit audit``."""
    from orbit.cli import add_json_option, add_profile_option

    parser.add_argument(
        "environment",
        nargs="?",
        metavar="ENV",
        help="a prefix or virtual environment (with lib/python3.*/site-packages), or a site-packages folder",
    )
    add_profile_option(parser)
    parser.add_argument(
        "--uid", type=int, default=65534, metavar="N", help="user whose access is judged (default: 65534, nobody)"
    )
    parser.add_argument(
        "--hash", action="store_true", help="hash every file, also those unchanged since the last audit (fact cache)"
    )
    add_json_option(parser)
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the report and end")


def run(args: argparse.Namespace) -> int:
    """Audit, print, and say by the exit status whether anything is wrong."""
    from orbit import __version__
    from orbit.audit.report import AuditReport, json_schema
    from orbit.audit.run import audit_environment
    from orbit.audit.text import render_text
    from orbit.core.console import Console
    from orbit.core.records import canonical
    from orbit.core.store import cache_root
    from orbit.errors import ExitCode, InputError
    from orbit.profile.model import load_profile

    if args.schema:
        sys.stdout.write(json_schema().decode())
        return ExitCode.OK
    if args.environment is None:
        raise InputError("no environment given", fix="orbit audit ENV (see orbit audit --help)")
    if not 0 <= args.uid <= MAX_UID:
        raise InputError(f"--uid {args.uid}: not a user id", fix="give a number such as 65534")
    report = audit_environment(
        Path(args.environment),
        load_profile(args.profile),
        uid=args.uid,
        progress=Console("audit: "),
        cache=None if args.hash else cache_root() / "facts",
    )
    sys.stderr.write(render_text(report))
    if args.json:
        sys.stdout.write(canonical(AuditReport(orbit=__version__, reports=(report,))).decode() + "\n")
    return ExitCode.FINDINGS if report.failed else ExitCode.OK
