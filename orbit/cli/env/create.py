"""Install the lock and the built kernels into a relocatable folder, in the store; print where it is."""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, add_limit_options, add_profile_option, limit_of, print_json
from orbit.core.amounts import format_bytes


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_profile_option(parser)
    parser.add_argument("--kernels", choices=("core", "all"), default="core", help="which recipes are built first")
    add_limit_options(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="also copy the environment to this new folder")
    parser.add_argument("--dry-run", action="store_true", help="say what would be installed; build and write nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Create it, or say what would be done."""
    return _dry_run(args) if args.dry_run else _create(args)


def _dry_run(args: argparse.Namespace) -> int:
    from orbit.core.paths import checkout_root
    from orbit.env import interpreter
    from orbit.env.create import needed_bytes
    from orbit.env.install import make_plan
    from orbit.env.record import NO_WHEELS
    from orbit.profile.model import load_profile
    from orbit.profile.place import profile_lock

    profile = load_profile(args.profile)
    source = interpreter.running()
    interpreter.check_source(source, profile.python)
    plan = make_plan(profile, profile_lock(profile, checkout_root()), NO_WHEELS)
    recipes = [*profile.kernels.core, *(profile.kernels.extended if args.kernels == "all" else ())]
    answer = {
        "profile": profile.name,
        "python": source.version,
        "prebuilt": len(plan.prebuilt),
        "download_bytes": plan.download_bytes,
        "environment_bytes": needed_bytes(plan),
        "recipes": recipes,
        "without_wheel": [skip.what for skip in plan.skipped],
    }
    if args.json:
        print_json(answer)
    else:
        print(
            f"would install CPython {source.version} and {len(plan.prebuilt)} wheels "
            f"({format_bytes(plan.download_bytes)} to download, about {format_bytes(needed_bytes(plan))} on disk)\n"
            f"would build first: {', '.join(recipes) or 'nothing'}\n"
            f"no published wheel: {', '.join(skip.what for skip in plan.skipped) or 'none'}"
        )
    return 0


def _create(args: argparse.Namespace) -> int:
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.env.create import copy_out, create_environment
    from orbit.env.record import read_environment
    from orbit.kernels.build import build_kernels
    from orbit.profile.model import load_profile

    profile = load_profile(args.profile)
    root = checkout_root()
    store = open_store()
    progress = Console()
    with store.writer("orbit command"):
        store.sweep()
        wheelhouse = build_kernels(profile, root, store, tier=args.kernels, progress=progress, limit=limit_of(args))
        entry = create_environment(profile, root, wheelhouse, store, progress=progress)
    prefix = entry.path / "prefix"
    if args.out:
        copy_out(prefix, args.out, progress=progress)
        prefix = args.out.absolute()
    record = read_environment(prefix)
    outputs = entry.record.outputs
    word = "already in the store" if entry.reused else "created"
    for skip in record.skipped:
        progress.step(f"skipped {skip.what}: {skip.reason}" + (f" ({skip.estimate})" if skip.estimate else ""))
    progress.step(
        f"environment {record.identity[:12]} {word}: {outputs['distributions']} distributions, "
        f"{outputs['files']} files, {format_bytes(outputs['bytes'])}"
    )
    if args.json:
        answer = {"prefix": str(prefix), "reused": entry.reused, "outputs": outputs, "environment": record}
        print_json(answer)
    else:
        print(prefix)
    return 0
