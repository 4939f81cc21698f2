"""Build a recipe again, in another folder and without the unit cache, and compare the result with the wheel in the
store. Exit status 1 when a byte differs; then each difference is named with its cause where that can be told.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from orbit.cli import add_json_option, add_profile_option, print_json
from orbit.errors import ExitCode, InputError, MissingError


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("name", metavar="RECIPE", help="e.g. causal-conv1d; it must have been built before")
    add_profile_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Rebuild, compare, print."""
    from orbit.core.console import Console
    from orbit.core.files import remove_tree
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.kernels.build import rebuild
    from orbit.kernels.plan import make_plan
    from orbit.kernels.wheels.compare import compare_wheels
    from orbit.kernels.wheels.compare_text import render_comparison
    from orbit.profile.model import load_profile

    profile, root, store = load_profile(args.profile), checkout_root(), open_store()
    plan = make_plan(profile, root, store, tier="all", names=(args.name,))
    if not plan.items:
        raise InputError(f"{args.name}: published, not compiled here", fix="only compiled recipes can be reproduced")
    (item,) = plan.items
    if not item.cached:
        raise MissingError(f"{args.name}: no wheel in the store", fix=f"orbit kernels build {args.name}")
    with store.writer("orbit kernels reproduce"):
        store.sweep()
        # a folder whose name has another length: paths that leak change more than their own bytes then
        folder = store.scratch(f"reproduce-{args.name}-elsewhere")
        try:
            again = rebuild(item, profile, root, store, folder=folder, progress=Console())
            found = compare_wheels(next(Path(item.cached).glob("*.whl")), again)
        finally:
            remove_tree(folder)
    if args.json:
        print_json(found)
    else:
        print(render_comparison(found, color=sys.stdout.isatty()), end="")
    return ExitCode.OK if found.identical else ExitCode.FINDINGS
