"""Releases: whether an image may be called one, decided from evidence alone; and what goes with it.

``run`` does all of it: the clean room, the decision, the bundle. ``decide`` only reads evidence and ``cleanroom`` only
builds again. Page: docs/gate.md.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_actions, run_action

HELP = "decide from evidence whether an image is a release, and write its bundle"
ACTIONS: dict[str, str] = {}


def configure(parser: argparse.ArgumentParser) -> None:
    """Sub-commands and their options; each is a module beside this one."""
    add_actions(parser, __name__, ACTIONS)


run = run_action
