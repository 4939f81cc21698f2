"""Site files: what a cluster is. Page: docs/site.md."""

from __future__ import annotations

import argparse

from orbit.cli import add_actions, run_action

HELP = "what a cluster is: show a site file, check it, fill one in from inside a node"
ACTIONS = {
    "show": "the shipped sites, or one site with everything that is not the default",
    "check": "what contradicts itself in a site file",
    "probe": "fill in a site file from what this node shows, each value with how it was found",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Sub-commands and their options; each is a module beside this one."""
    add_actions(parser, __name__, ACTIONS)


run = run_action
