"""Options that the actions of the gate share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orbit.release.gate.cleanroom import Options
    from orbit.release.gate.decide import Decision
    from orbit.release.gate.run import Gate


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Which run."""
    parser.add_argument(
        "folder", type=Path, metavar="RUN", nargs="?", help="folder of a run of ship (default: dist/PROFILE)"
    )
    parser.add_argument("--profile", default="", metavar="NAME", help="default: the one the run names, else cu130")


def add_evidence_option(parser: argparse.ArgumentParser) -> None:
    """What was made elsewhere."""
    parser.add_argument(
        "--evidence", type=Path, metavar="DIR", help="folder with attestations of other machines (*.intoto.json)"
    )


def add_room_options(parser: argparse.ArgumentParser) -> None:
    """How to build again."""
    parser.add_argument(
        "--room", type=Path, metavar="DIR", help="folder for the clean room (default: below ORBIT_CACHE)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the room as it is when it is done")
    parser.add_argument(
        "--fence",
        choices=("auto", "none"),
        default="auto",
        help="none: any host may be contacted; no release accepts it",
    )
    parser.add_argument("--again", action="store_true", help="build also when a clean room of this run still counts")


def gate_of(args: argparse.Namespace) -> Gate:
    """The gate that the options name."""
    from orbit.cli import build_parser
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.release.gate.run import open_gate

    evidence = getattr(args, "evidence", None)
    return open_gate(
        args.folder, args.profile, checkout_root(), evidence=evidence, parser=build_parser(), progress=Console()
    )


def room_of(args: argparse.Namespace, profile: str) -> Options:
    """Where and how the clean room is made."""
    from orbit.core.store import cache_root
    from orbit.release.gate.cleanroom import Options

    place = args.room.absolute() if args.room else cache_root() / "clean-room" / profile
    return Options(place=place, keep=args.keep, fence=args.fence)


def show(decision: Decision, gate: Gate) -> None:
    """The decision on stdout, for people."""
    import sys

    from orbit.release.gate.text import render

    sys.stdout.write(render(decision, gate.definition, color=sys.stdout.isatty()))
