"""Environments: install the lock and the built kernels into a relocatable folder, activate it, and take it elsewhere.

``create`` makes the environment of a profile in the store (or says that it is there already). ``activate`` prints
commands for a shell: ``eval "$(orbit env activate PREFIX)"``. ``archive`` and ``hydrate`` carry an environment to
another machine in one file, ``prove`` shows that it works there, ``materialize`` makes one that leans on a cache stand
by itself. Pages: docs/env.md, docs/env-archive.md.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_actions, run_action

HELP = "create, activate, archive, hydrate and prove environments"
ACTIONS = {
    "create": "install lock and kernels into a relocatable folder",
    "activate": "print the commands that activate an environment",
    "archive": "write an environment into one file that can be unpacked anywhere",
    "hydrate": "make an environment out of an archive, under any path",
    "materialize": "files in the place of links into a cache, so that the cache may go",
    "prove": "unpack an archive elsewhere for another user, audit it and run the checks in it",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Sub-commands and their options; each is a module beside this one."""
    add_actions(parser, __name__, ACTIONS)


run = run_action
