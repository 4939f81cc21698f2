"""CUDA kernels: what is compiled or verified for a profile, the results, and what is known about them.

``plan`` shows what would be done, ``build`` does it, also as one machine's share of a build (``--part``, ``--archs``).
``sources`` says where everything comes from and packs it for a machine without network. ``manifest``, ``show``,
``compare``, ``reproduce`` and ``costs`` are about results; ``gc`` makes room. Page: docs/kernels.md.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_actions, run_action

HELP = "plan, build, verify and inspect the CUDA kernels of a profile"
ACTIONS = {
    "plan": "what would be built or verified, from what, and what is in the store already",
    "build": "build and verify what is missing and print the wheels",
    "sources": "where every source comes from; --export packs them for a machine without network",
    "manifest": "print the manifests of the wheels in the store",
    "show": "explain a recipe, or say what is in a wheel",
    "compare": "say in which bytes two wheels differ, and why",
    "reproduce": "build again, elsewhere and without caches, and compare with the wheel in the store",
    "costs": "what the last builds took: time, memory, the slowest units",
    "gc": "remove from the store what no build of this checkout needs and nobody used for a while",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Sub-commands and their options; each is a module beside this one."""
    add_actions(parser, __name__, ACTIONS)


run = run_action
