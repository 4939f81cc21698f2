"""Check a profile's lockfile against its policy, explain why each version is what it is, compare two locks.

``check`` and ``explain`` are about the lock that the profile names; ``diff`` takes two profiles or lock files. Page:
docs/lock.md.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_actions, run_action

HELP = "check the lockfile, explain its versions, compare two"
ACTIONS = {
    "check": "is the lock fresh, from the right sources, of one CUDA release, and explained?",
    "explain": "the pin table: package, version, source, wheel or built, why",
    "diff": "what differs between the locks of two profiles, or two lock files, and what follows from it",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Sub-commands and their options; each is a module beside this one."""
    add_actions(parser, __name__, ACTIONS)


run = run_action
