"""Make an environment out of an archive, under any path and as any user; from a file, or from a pipe with ``-``.

Every file is compared with its digest while it is written. The environment appears whole or not at all.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from orbit.cli import add_json_option, print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("archive", metavar="ARCHIVE", help="a file that `orbit env archive` made; - for standard input")
    parser.add_argument("--prefix", type=Path, metavar="DIR", required=True, help="the environment's folder")
    parser.add_argument(
        "--editable", type=Path, action="append", default=[], metavar="DIR",
        help="install this checkout in development mode on top (may be repeated)",
    )  # fmt: skip
    parser.add_argument(
        "--elsewhere", action="store_true", help="it will be used on another machine: do not try to start it here"
    )
    parser.add_argument("--dry-run", action="store_true", help="read the start of the archive, check, change nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Unpack it and print the prefix."""
    import contextlib

    from orbit.core.amounts import format_bytes
    from orbit.core.console import Console
    from orbit.core.files import open_regular
    from orbit.env.hydrate import Options, hydrate, look

    options = Options(elsewhere=args.elsewhere, editables=tuple(args.editable))
    progress = Console()
    with contextlib.ExitStack() as stack:
        piped = args.archive == "-"
        where = "standard input" if piped else args.archive
        source = sys.stdin.buffer if piped else stack.enter_context(open_regular(args.archive))
        if args.dry_run:
            planned = look(source, where, args.prefix, options)
            text = f"would unpack environment {planned.manifest.environment[:12]} as {planned.prefix}"
            more = f"{planned.manifest.files} files, {format_bytes(planned.disk_bytes)} on disk"
            instead = f", in the place of environment {planned.replaces[:12]}" if planned.replaces else ""
            print_json(planned) if args.json else print(f"{text}: {more}{instead}")
            return 0
        done = hydrate(source, where, args.prefix, options, progress=progress)
    for skip in done.skipped:
        progress.step(f"skipped {skip.what}: {skip.reason}")
    for item in done.editables:
        instead = f", in the place of {item.replaced}" if item.replaced else ""
        progress.step(f"{item.name} {item.version} from its checkout ({item.how}){instead}")
    word = "was there already" if done.reused else f"unpacked: {done.files} files, {format_bytes(done.bytes)}"
    progress.step(f"environment {done.environment[:12]} {word}")
    print_json(done) if args.json else print(done.prefix)
    return 0
