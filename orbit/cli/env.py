"""Environments: install the lock and the built kernels into a relocatable folder, and activate it in a shell.

``create`` makes the environment of a profile in the store (or says that it is there already). ``activate`` prints
commands for a shell: ``eval "$(orbit env activate PREFIX)"``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from orbit.cli import add_json_option, add_limit_options, add_profile_option, limit_of

HELP = "create and activate environments"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="install lock and kernels into a relocatable folder")
    add_profile_option(create)
    create.add_argument("--kernels", choices=("core", "all"), default="core", help="which recipes are built first")
    add_limit_options(create)
    create.add_argument("--out", type=Path, metavar="DIR", help="also copy the environment to this new folder")
    create.add_argument("--dry-run", action="store_true", help="say what would be installed; build and write nothing")
    add_json_option(create)
    activate = actions.add_parser("activate", help="print the commands that activate an environment")
    activate.add_argument("prefix", type=Path, metavar="PREFIX", help="folder with bin/python3.12")
    activate.add_argument("--shell", choices=("sh", "fish"), default="sh", help="whose syntax (sh: also bash, zsh)")
    activate.add_argument("--state", metavar="DIR", help="folder for all that is written (default: $ORBIT_STATE)")
    add_json_option(activate)


def run(args: argparse.Namespace) -> int:
    """Create or activate."""
    if args.action == "activate":
        return _activate(args)
    return _dry_run(args) if args.dry_run else _create(args)


def _dry_run(args: argparse.Namespace) -> int:
    from orbit.core.paths import checkout_root
    from orbit.env import interpreter
    from orbit.env.create import needed_bytes
    from orbit.env.install import make_plan
    from orbit.env.record import NO_WHEELS
    from orbit.profile.lock import read_lock
    from orbit.profile.model import load_profile

    profile = load_profile(args.profile)
    source = interpreter.running()
    interpreter.check_source(source, profile.python)
    plan = make_plan(profile, read_lock(checkout_root() / "uv.lock"), NO_WHEELS)
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
        _print_json(answer)
    else:
        print(
            f"would install CPython {source.version} and {len(plan.prebuilt)} wheels "
            f"({plan.download_bytes / 1e9:.2f} GB to download, about {needed_bytes(plan) / 1e9:.1f} GB on disk)\n"
            f"would build first: {', '.join(recipes) or 'nothing'}\n"
            f"no published wheel: {', '.join(skip.what for skip in plan.skipped) or 'none'}"
        )
    return 0


def _print_json(value: object) -> None:
    import msgspec

    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    sys.stdout.buffer.flush()


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
        f"{outputs['files']} files, {outputs['bytes'] / 1e9:.1f} GB"
    )
    if args.json:
        answer = {"prefix": str(prefix), "reused": entry.reused, "outputs": outputs, "environment": record}
        _print_json(answer)
    else:
        print(prefix)
    return 0


def _activate(args: argparse.Namespace) -> int:
    from orbit.env.activate import activation_of, default_state, render

    state = args.state or default_state()
    variables = activation_of(args.prefix, state)
    if args.json:
        _print_json(variables)
    else:
        print(render(variables, state, args.shell), end="")
    return 0
