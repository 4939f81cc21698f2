"""What a job printed.

With `--follow` also what it will print, until it ends; Ctrl-C ends the reading and not the job. Exit status 3: there
is nothing to read yet, or any more.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("name", metavar="NAME", help="of the job, as in its recipe")
    parser.add_argument("--follow", action="store_true", help="until it has ended")
    parser.add_argument("--json", action="store_true", help="each line as a JSON object with the key line")


def run(args: argparse.Namespace) -> int:
    """Copy the log to stdout."""
    import sys

    from orbit.launch.submit.model import load_ref, open_scheduler

    ref = load_ref(args.name)
    pieces = open_scheduler(ref.scheduler).logs(ref, follow=args.follow)
    if args.json:
        _lines(pieces)
        return 0
    for piece in pieces:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    return 0


def _lines(pieces: Iterable[bytes]) -> None:
    import json

    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for one in whole:
            print(json.dumps({"line": one.decode(errors="replace")}), flush=True)
    if rest:
        print(json.dumps({"line": rest.decode(errors="replace")}))
