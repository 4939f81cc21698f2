"""Environments: install the lock and the built kernels into a relocatable folder, and activate it in a shell.

``create`` makes the environment of a profile in the store (or says that it is there already). ``activate`` prints
commands for a shell: ``eval "$(orbit env activate PREFIX)"``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from orbit.cli import add_json_option, add_profile_option

HELP = "create and activate environments"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="install lock and kernels into a relocatable folder")
    add_profile_option(create)
    create.add_argument("--kernels", choices=("core", "all"), default="core", help="which recipes are built first")
    create.add_argument("--jobs", type=int, metavar="N", help="compile jobs for kernels (default: by memory)")
    create.add_argument("--out", type=Path, metavar="DIR", help="also copy the environment to this new folder")
    add_json_option(create)
    activate = actions.add_parser("activate", help="print the commands that activate an environment")
    activate.add_argument("prefix", type=Path, metavar="PREFIX", help="folder with bin/python3.12")
    activate.add_argument("--shell", choices=("sh", "fish"), default="sh", help="whose syntax (sh: also bash, zsh)")
    activate.add_argument("--state", metavar="DIR", help="folder for all that is written (default: $ORBIT_STATE)")
    add_json_option(activate)


def run(args: argparse.Namespace) -> int:
    """Create or activate."""
    return _create(args) if args.action == "create" else _activate(args)


def _create(args: argparse.Namespace) -> int:
    import msgspec

    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import Store, cache_root
    from orbit.env.create import copy_out, create_environment
    from orbit.env.record import read_environment
    from orbit.kernels.build import build_kernels
    from orbit.profile.model import load_profile

    profile = load_profile(args.profile)
    root = checkout_root()
    store = Store(cache_root())
    progress = Console()
    with store.writer("orbit command"):
        store.sweep()
        wheelhouse = build_kernels(profile, root, store, tier=args.kernels, jobs=args.jobs, progress=progress)
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
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n")
    else:
        print(prefix)
    return 0


def _activate(args: argparse.Namespace) -> int:
    import msgspec

    from orbit.env.activate import activation_of, default_state, render

    state = args.state or default_state()
    variables = activation_of(args.prefix, state)
    if args.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(variables), indent=2) + b"\n")
    else:
        print(render(variables, state, args.shell), end="")
    return 0
