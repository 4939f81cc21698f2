"""Releases: whether an image may be called one, decided from evidence alone; and what goes with it.

``run`` does all of it: the clean room, the decision, the bundle. ``decide`` only reads evidence and ``cleanroom`` only
builds again. Page: docs/gate.md.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_actions, run_action

HELP = "decide from evidence whether an image is a release, and write its bundle"
ACTIONS: dict[str, str] = {
    "run": "clean room, decision, bundle: all of it",
    "decide": "judge the evidence of a run; nothing is built",
    "cleanroom": "build the commit of a run from nothing and compare the digests",
    "verify": "check a bundle, offline: who signed it, what is proven and what is not",
    "attest": "sign a smoke report or a qualification record",
    "key": "keys that sign: make one, show one",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Sub-commands and their options; each is a module beside this one."""
    add_actions(parser, __name__, ACTIONS)
    globals()["run"] = run_action  # the action of that name is a module, and being imported took its place


run = run_action
