"""Run the profile's checks inside the image."""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, print_json
from orbit.cli.image import add_layout_argument
from orbit.cli.terminal import print_text
from orbit.errors import InputError

ENGINES = ("auto", "docker", "podman", "bubblewrap", "unshare")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_layout_argument(parser)
    parser.add_argument("--list", action="append", metavar="NAME", help="list in containers/smoke (may be repeated)")
    parser.add_argument("--gpu", action="store_true", help="the profile's lists that need a GPU")
    parser.add_argument("--engine", choices=ENGINES, default="auto", help="default: the first that works")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="the report as JUnit XML in FILE as well")
    parser.add_argument("--profile", metavar="NAME", help="profile in env/profiles (default: the one the image names)")
    parser.add_argument("--dry-run", action="store_true", help="say which lists would run, as whom and in which engine")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the lists; the exit status is the report's."""
    from orbit.core.console import Console
    from orbit.core.files import write_atomic
    from orbit.core.store import open_store
    from orbit.image.oci import read_layout
    from orbit.image.smoke.report import render, to_junit
    from orbit.image.smoke.run import choose, load_list, run_smoke
    from orbit.profile.model import load_profile

    image = read_layout(args.layout)
    named = args.profile or image.config.config.labels.get("io.orbit.profile")
    if named is None:
        raise InputError(f"{args.layout}: names no profile", fix="give one: --profile NAME")
    profile = load_profile(named)
    lists = tuple(args.list or (profile.smoke_gpu if args.gpu else profile.smoke))
    if args.dry_run:
        found, plans = choose(args.engine), [load_list(name) for name in lists]
        engine = found if isinstance(found, str) else f"{found.name} {found.version}"
        runs = [{"list": plan.name, "checks": len(plan.checks), "uids": list(plan.uids)} for plan in plans]
        if args.json:
            print_json({"image": image.digest, "profile": profile.name, "engine": engine, "runs": runs})
            return 0
        print(f"smoke of {image.digest} ({profile.name}) with {engine}")
        for plan in plans:
            users = ", ".join(map(str, plan.uids))
            print(f"  {plan.name}: {len(plan.checks)} checks as each of uid {users}")
        print("nothing was run")
        return 0
    store = open_store()
    with store.writer("orbit image smoke"):
        report = run_smoke(profile, args.layout, lists, store, engine=args.engine, progress=Console())
    if args.junit:
        write_atomic(args.junit, to_junit(report))
    print_json(report) if args.json else print_text(render(report))
    return report.exit_code
