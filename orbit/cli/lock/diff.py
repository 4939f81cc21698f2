"""What differs between two locks, package by package, and what follows: drivers, rebuilds, checkpoints, numerics.

A and B are names of profiles or paths of uv.lock files; a file is read as the profile of --profile installs it. To
compare with what was committed: `git show main:uv.lock > old.lock; orbit lock diff old.lock uv.lock --markdown`. Exit
status: 0 equal, 1 they differ.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, add_profile_option, print_json
from orbit.errors import ExitCode, InputError

if TYPE_CHECKING:
    from orbit.profile.diff.view import GapFact, RecipeFact, View
    from orbit.profile.model import Profile


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("locks", metavar="A|B", nargs="*", help="two profiles or lock files: the old and the new one")
    parser.add_argument("--markdown", action="store_true", help="print for a pull request")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the result and end")
    add_profile_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    import sys

    from orbit.audit.reports.report import json_schema
    from orbit.core.paths import data_root
    from orbit.profile.diff.compare import compare
    from orbit.profile.diff.consequences import COMPUTED
    from orbit.profile.diff.records import LockDiff
    from orbit.profile.diff.rules import load_rules
    from orbit.profile.diff.text import render, render_markdown

    if args.schema:
        sys.stdout.write(json_schema(LockDiff).decode())
        return ExitCode.OK
    if len(args.locks) != 2:
        raise InputError(f"two locks are needed, and {len(args.locks)} given", fix="orbit lock diff A B")
    if args.json and args.markdown:
        raise InputError("--json together with --markdown", fix="give one or the other")
    rules = load_rules(data_root(), frozenset(COMPUTED))
    left, right = (view_of(text, args.profile) for text in args.locks)
    found = compare(left, right, rules)
    if args.json:
        print_json(found)
    else:
        sys.stdout.write(render_markdown(found) if args.markdown else render(found))
    return ExitCode.OK if found.equal else ExitCode.FINDINGS


def view_of(text: str, profile_name: str) -> View:
    """A profile's name is one; anything else is a path."""
    from orbit.core.paths import checkout_root
    from orbit.profile.diff.view import View
    from orbit.profile.lock import read_lock
    from orbit.profile.model import load_profile, profile_names
    from orbit.profile.place import profile_lock

    if text in profile_names():
        profile = load_profile(text)
        lock = profile_lock(profile, checkout_root())
    elif Path(text).is_file():
        profile = load_profile(profile_name)
        lock = read_lock(Path(text))
    else:
        raise InputError(
            f"{text}: neither a profile nor a lock file", fix=f"known profiles: {', '.join(profile_names())}"
        )
    return View(text, lock, profile, _recipes(profile), _gaps(profile))


def _recipes(profile: Profile) -> tuple[RecipeFact, ...]:
    from orbit.kernels.recipe import load_recipe
    from orbit.profile.diff.view import RecipeFact

    recipes = [load_recipe(name) for name in (*profile.kernels.core, *profile.kernels.extended)]
    return tuple(RecipeFact(each.name, each.dist, each.mode, each.group) for each in recipes)


def _gaps(profile: Profile) -> tuple[GapFact, ...]:
    from orbit.audit.known.policy import load_policy
    from orbit.profile.diff.view import GapFact

    found = load_policy(profile).expectations.gaps
    return tuple(GapFact(gap.file, gap.target, gap.result, gap.reason) for gap in found)
