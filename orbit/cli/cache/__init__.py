"""What the store holds ($ORBIT_CACHE, else ~/.cache/orbit), and making room in it.

Everything in it costs time when it is gone and nothing else: it is made or fetched again. Page: docs/cache.md.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_actions, run_action

HELP = "what the store holds, and making room in it"
ACTIONS = {
    "show": "what is in it, by kind: how much, when it was last used, which layouts have its files",
    "gc": "remove what nobody used for a while and nothing that stays needs",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Sub-commands and their options; each is a module beside this one."""
    add_actions(parser, __name__, ACTIONS)


run = run_action
