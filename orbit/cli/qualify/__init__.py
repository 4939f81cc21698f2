"""Numbers: does this environment, image or GPU compute what another one computes?

``record`` runs a frozen batch where the stack is installed, ``compare`` compares two records and names the first
operation that differs. Page: docs/qualify.md.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_actions, run_action

HELP = "run a frozen batch and compare its numbers between environments, images and GPUs"
ACTIONS = {
    "record": "run the frozen batch in an environment, or here, and write what it computed",
    "compare": "two records: equal bits on one architecture, tolerance across; the first operation that differs",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Sub-commands and their options; each is a module beside this one."""
    add_actions(parser, __name__, ACTIONS)


run = run_action
