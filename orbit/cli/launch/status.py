"""What the scheduler says of a job that was submitted from here, or of all of them.

Exit status with a name: 0 it waits, runs or has succeeded; 1 it has ended otherwise; 2 no such job; 3 the scheduler
cannot be reached. `--wait` asks until it has ended. Without a name 0, whatever became of them.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json

if TYPE_CHECKING:
    from orbit.launch.submit.model import JobRef, JobStatus

PAUSE_S = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the job, as in its recipe (default: all)")
    parser.add_argument("--wait", action="store_true", help="until it has ended")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    import time

    from orbit.errors import ExitCode, InputError
    from orbit.launch.submit.model import Phase, load_ref

    if not args.name:
        if args.wait:
            raise InputError("--wait without a name", fix="orbit launch status --wait NAME")
        return _all(args)
    ref = load_ref(args.name)
    status = ask(ref)
    while args.wait and not status.phase.ended:
        time.sleep(PAUSE_S)
        status = ask(ref)
    print_json({"job": ref, "status": status}) if args.json else print(line(ref, status))
    good = status.phase is Phase.SUCCEEDED or not status.phase.ended
    return ExitCode.OK if good else ExitCode.FINDINGS


def ask(ref: JobRef) -> JobStatus:
    """The status; one that ended after `orbit launch cancel` was cancelled, whatever status its command left."""
    import msgspec

    from orbit.launch.submit.model import CANCELLED_AT, Phase, open_scheduler

    status = open_scheduler(ref.scheduler).status(ref)
    if status.phase is Phase.FAILED and CANCELLED_AT in ref.details:
        status = msgspec.structs.replace(status, phase=Phase.CANCELLED)
    return status


def line(ref: JobRef, status: JobStatus) -> str:
    """One job for people."""
    code = f", status {status.exit_code}" if status.exit_code is not None else ""
    nodes = f" on {', '.join(status.nodes)}" if status.nodes else ""
    message = f": {status.message}" if status.message else ""
    return f"{ref.name}: {status.phase.value} ({ref.scheduler} {ref.id}, {status.state}{code}){nodes}{message}"


def _all(args: argparse.Namespace) -> int:
    """Every job; one whose scheduler does not answer does not hide the others."""
    from orbit.errors import OrbitError
    from orbit.launch.submit.model import all_refs

    found: list[dict[str, object]] = []
    for ref in all_refs():
        try:
            status = ask(ref)
        except OrbitError as error:
            found.append({"job": ref, "error": str(error)})
            text = f"{ref.name}: not known ({error.what})"
        else:
            found.append({"job": ref, "status": status})
            text = line(ref, status)
        if not args.json:
            print(text)
    if args.json:
        print_json(found)
    elif not found:
        print("no job was submitted by this user from this machine")
    return 0
