"""What is wrong on this machine, or what an error means: cause and fix, the likeliest first.

Without options: limits, folders, variables, libraries, the environment, what runs and what was left behind, in a few
seconds and without changing anything. --explain reads an error message or a log of any size instead and needs neither
network nor GPU. Page: docs/doctor.md. Exit status: 0 nothing found, 1 something found, 2 bad input, 3 nothing could be
looked at.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, add_profile_option, print_json

if TYPE_CHECKING:
    from orbit.doctor.diagnosis import Diagnosis

HELP = "find what is wrong on this machine, or explain an error message; cause and fix"


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument(
        "--prefix", type=Path, metavar="PREFIX", help="environment to look at (default: the active one, else our own)"
    )
    parser.add_argument(
        "--deep", action="store_true", help="also every check of the preflight, the audit of the environment, docker"
    )
    parser.add_argument(
        "--explain", metavar="TEXT", help="explain an error instead: its text, a file with it, or - for standard input"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="also write facts without secrets; .txt or JSON")
    parser.add_argument("--about", metavar="NAME", help="show one entry of the catalogue and end")
    parser.add_argument("--list", action="store_true", help="list all entries of the catalogue and end")
    parser.add_argument("--page", action="store_true", help="print the page docs/symptoms.md and end")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the answer and end")
    add_profile_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Look or explain, print, and say by the status whether anything was found."""
    from orbit.errors import ExitCode, InputError

    if args.schema:
        import sys

        from orbit.audit.reports.report import json_schema
        from orbit.doctor.diagnosis import Diagnosis

        sys.stdout.write(json_schema(Diagnosis).decode())
        return ExitCode.OK
    if args.about or args.list or args.page:
        return _catalog(args)
    if args.explain is not None:
        if args.report or args.deep or args.prefix:
            raise InputError(
                "--explain reads a text, the other options look at this machine", fix="two calls, one of each"
            )
        from orbit.doctor.run import explain

        diagnosis = explain(args.explain)
    else:
        diagnosis = _look(args)
    _print(args, diagnosis)
    if args.explain is None and not diagnosis.looked:
        return ExitCode.MISSING
    return ExitCode.FINDINGS if diagnosis.causes else ExitCode.OK


def _look(args: argparse.Namespace) -> Diagnosis:
    import os
    import sys

    from orbit.core.console import Console, Silent
    from orbit.doctor.look.gather import gather
    from orbit.doctor.run import diagnose
    from orbit.errors import InputError

    if args.report and not args.report.absolute().parent.is_dir():
        raise InputError(f"{args.report}: no folder to write it into", fix="make the folder, or name another file")
    deeper = None
    if args.deep:
        from orbit.doctor.look.deep import Audit
        from orbit.profile.model import load_profile

        deeper = Audit(load_profile(args.profile))
    progress = Console("doctor: ") if args.deep else Silent()
    facts = gather(os.environ, prefix=args.prefix, own=sys.prefix, deeper=deeper, progress=progress)
    diagnosis = diagnose(facts)
    if args.report:
        from orbit.doctor.report import here, write_report

        write_report(args.report, diagnosis, facts, here())
    return diagnosis


def _print(args: argparse.Namespace, diagnosis: Diagnosis) -> None:
    import shutil
    import sys

    from orbit.doctor.text import render

    if args.json:
        print_json(diagnosis)
    else:
        sys.stdout.write(render(diagnosis, shutil.get_terminal_size((100, 24)).columns))


def _catalog(args: argparse.Namespace) -> int:
    import difflib
    import shutil
    import sys

    from orbit.doctor.catalog import load_catalog
    from orbit.doctor.text import render_symptom
    from orbit.errors import ExitCode, InputError

    if args.page:
        from orbit.doctor.page import render_page

        sys.stdout.write(render_page())
        return ExitCode.OK
    catalog = load_catalog()
    if args.list:
        chosen = list(catalog.values())
        if args.json:
            print_json(chosen)
        else:
            sys.stdout.write("".join(f"{symptom.id:<34} {symptom.title}\n" for symptom in chosen))
        return ExitCode.OK
    if args.about not in catalog:
        near = difflib.get_close_matches(args.about, catalog, 3, 0.4)
        raise InputError(
            f"--about {args.about}: no such entry", fix=f"one of {', '.join(near)}" if near else "orbit doctor --list"
        )
    symptom = catalog[args.about]
    width = shutil.get_terminal_size((100, 24)).columns
    print_json(symptom) if args.json else sys.stdout.write(render_symptom(symptom, width))
    return ExitCode.OK
