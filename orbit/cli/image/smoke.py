"""Run the profile's checks inside the image."""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json
from orbit.errors import InputError

ENGINES = ("auto", "docker", "podman", "bubblewrap", "unshare")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("layout", type=Path, metavar="LAYOUT")
    parser.add_argument("--list", action="append", metavar="NAME", help="list in containers/smoke (may be repeated)")
    parser.add_argument("--gpu", action="store_true", help="the profile's lists that need a GPU")
    parser.add_argument("--engine", choices=ENGINES, default="auto", help="default: the first that works")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="the report as JUnit XML in FILE as well")
    parser.add_argument("--profile", metavar="NAME", help="profile in env/profiles (default: the one the image names)")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the lists; the exit status is the report's."""
    from orbit.core.console import Console
    from orbit.core.files import write_atomic
    from orbit.core.store import open_store
    from orbit.image.oci import read_layout
    from orbit.image.smoke.report import render, to_junit
    from orbit.image.smoke.run import run_smoke
    from orbit.profile.model import load_profile

    named = args.profile or read_layout(args.layout).config.config.labels.get("io.orbit.profile")
    if named is None:
        raise InputError(f"{args.layout}: names no profile", fix="give one: --profile NAME")
    profile = load_profile(named)
    lists = tuple(args.list or (profile.smoke_gpu if args.gpu else profile.smoke))
    store = open_store()
    with store.writer("orbit image smoke"):
        report = run_smoke(profile, args.layout, lists, store, engine=args.engine, progress=Console())
    if args.junit:
        write_atomic(args.junit, to_junit(report))
    print_json(report) if args.json else print(render(report))
    return report.exit_code
