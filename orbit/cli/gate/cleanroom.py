"""Build the commit of a run in a clean room (fresh clone, empty caches, declared hosts only) and compare the digests.

What came of it is added to the run as clean-room.json. Exit status 1 when another image came out, or none; 3 when a
source is missing. Page: docs/gate.md.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json
from orbit.cli.gate.options import add_room_options, add_run_options, gate_of, room_of
from orbit.errors import ExitCode

if TYPE_CHECKING:
    from orbit.release.gate.cleanroom import Options
    from orbit.release.gate.run import Gate


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_run_options(parser)
    add_room_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be built, where and from what")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Build and compare."""
    import datetime as dt
    import sys

    from orbit.release.gate.run import build_again

    gate = gate_of(args)
    options = room_of(args, gate.profile.name)
    if args.dry_run:
        steps = plan(gate, options)
        print_json(steps) if args.json else sys.stdout.write("".join(f"{k:12} {v}\n" for k, v in steps.items()))
        return ExitCode.OK
    with gate.lock("orbit gate cleanroom"):
        room = build_again(gate, options, again=args.again, now=dt.datetime.now(dt.UTC))
    if args.json:
        print_json(room)
    else:
        lines = [f"{room.profile}: {room.result}, commit {room.commit[:12]}, {room.seconds:.0f} s, fence {room.fence}"]
        lines += [f"candidate {room.candidate}", f"built     {room.digest or 'nothing'}"]
        lines += [f"hosts     {', '.join(f'{host} ({count})' for host, count in room.contacted.items()) or 'none'}"]
        lines += [f"refused   {', '.join(room.refused)}"] if room.refused else []
        lines += [room.reason] if room.reason else []
        sys.stdout.write("\n".join([*lines, *room.differences]) + "\n")
    return ExitCode.OK if room.result == "same" else ExitCode.FINDINGS


def plan(gate: Gate, options: Options) -> dict[str, str]:
    """What would be done."""
    from orbit.release.gate import cleanroom, room
    from orbit.release.gate.candidate import read_candidate

    policy = gate.definition.cleanroom
    candidate = read_candidate(gate.places.run, gate.profile)
    room.require_commit(gate.places.root, candidate.commit)
    reason = cleanroom.why_no_namespace() if options.fence == "auto" else ""
    fence = "none" if options.fence == "none" else f"proxy: {reason}" if reason else "namespace"
    return {
        "candidate": candidate.digest,
        "commit": candidate.commit,
        "room": str(options.place),
        "command": " ".join(cleanroom.ship_command(candidate, gate.profile, options.place)),
        "hosts": ", ".join(sorted(room.declared_hosts(gate.places.root, gate.profile, policy))),
        "variables": ", ".join(sorted(room.passed_on(policy))),
        "fence": fence,
    }
