"""End a job: every node gets SIGTERM and the grace period of the recipe (`grace_seconds`).

A job that waits is taken back; of one that has ended what is left at the scheduler is removed. Exit status 0: it is
ended or was; 2 no such job; 3 the scheduler cannot be reached.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_json_option, print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("name", metavar="NAME", help="of the job, as in its recipe")
    parser.add_argument("--now", action="store_true", help="without the grace period: what it has not saved is lost")
    parser.add_argument("--dry-run", action="store_true", help="say what would be ended")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Cancel, and remember that it was."""
    import msgspec

    from orbit.launch.submit.model import CANCELLED_AT, load_ref, now, open_scheduler, save_ref

    ref = load_ref(args.name)
    scheduler = open_scheduler(ref.scheduler)
    before = scheduler.status(ref)
    if args.dry_run:
        done = f"would end {ref.scheduler} {ref.id}, which is {before.phase.value}"
    else:
        if not before.phase.ended:  # before it is done: an interrupt must not make a failure of it
            ref = msgspec.structs.replace(ref, details=ref.details | {CANCELLED_AT: now()})
            save_ref(ref)
        done = scheduler.cancel(ref, now=args.now)
    print_json({"name": ref.name, "done": done, "before": before}) if args.json else print(f"{ref.name}: {done}")
    return 0
