"""CUDA kernels compiled from source: what will be built, build it, and what is known about the result.

``plan`` shows the recipes of a profile and whether each wheel is in the store. ``build`` makes what is missing.
``manifest`` prints the manifests of the built wheels: architectures requested, compiled and found.
``show`` explains one recipe. Page: docs/kernels.md.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from orbit.cli import add_json_option, add_profile_option
from orbit.errors import ExitCode, MissingError

HELP = "plan, build and inspect the wheels that are compiled from source"


def configure(parser: argparse.ArgumentParser) -> None:
    """Sub-commands and their options."""
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    texts = {
        "plan": "what would be built, from what, and what is in the store already",
        "build": "build what is missing and print the wheels",
        "manifest": "print the build manifests of the wheels in the store",
        "show": "explain one recipe",
    }
    for action, text in texts.items():
        child = actions.add_parser(action, help=text, description=text)
        if action == "show":
            child.add_argument("name", help="recipe, e.g. causal-conv1d")
        else:
            child.add_argument(
                "--kernels",
                choices=("core", "all"),
                default="core",
                help="core: the default recipes; all: also those for big machines (default: core)",
            )
        if action == "build":
            child.add_argument(
                "--jobs", type=int, metavar="N", help="compile jobs at once (default: what memory allows)"
            )
        add_profile_option(child)
        add_json_option(child)


def run(args: argparse.Namespace) -> int:
    """Dispatch to the action."""
    actions = {"plan": _plan, "build": _build, "manifest": _manifest, "show": _show}
    return actions[args.action](args)


def _plan(args: argparse.Namespace) -> int:
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.kernels.plan import make_plan
    from orbit.profile.model import load_profile

    plan = make_plan(load_profile(args.profile), checkout_root(), open_store(), tier=args.kernels)
    if args.json:
        _print_json(plan)
        return ExitCode.OK
    for item in plan.items:
        state = "in the store" if item.cached else f"to build, about {item.recipe.core_hours:g} core-hours"
        archs = ", ".join(real for _, real in item.pairs)
        print(f"{item.recipe.name} {item.source.version}: {archs}; {item.jobs} job(s); {state}")
    for skip in plan.skipped:
        print(f"{skip.what}: skipped ({skip.reason})")
    return ExitCode.OK


def _build(args: argparse.Namespace) -> int:
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.errors import InputError
    from orbit.kernels.build import build_kernels
    from orbit.profile.model import load_profile

    if args.jobs is not None and args.jobs < 1:
        raise InputError(f"--jobs {args.jobs}: at least one job is needed", fix="leave it out to let orbit choose")
    store = open_store()
    profile, root = load_profile(args.profile), checkout_root()
    with store.writer("orbit kernels build"):
        store.sweep()
        house = build_kernels(profile, root, store, tier=args.kernels, jobs=args.jobs, progress=Console())
    if args.json:
        _print_json(house)
        return ExitCode.OK
    for wheel in house.wheels:
        print(f"{wheel.path}  {'reused' if wheel.reused else f'built in {wheel.seconds:.0f} s'}")
    for skip in house.skipped:
        print(f"{skip.what}: skipped ({skip.reason})")
    return ExitCode.OK


def _manifest(args: argparse.Namespace) -> int:
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.kernels.plan import built_manifests
    from orbit.profile.model import load_profile

    found, missing = built_manifests(load_profile(args.profile), checkout_root(), open_store(), tier=args.kernels)
    if missing:
        raise MissingError(f"not built yet: {', '.join(missing)}", fix=f"orbit kernels build --profile {args.profile}")
    if args.json:
        _print_json(found)
        return ExitCode.OK
    for manifest in found:
        print(f"{manifest.dist} {manifest.version}  ({manifest.wheel})")
        print(f"  requested  {', '.join(manifest.requested)}")
        asked = sorted({pair for unit in manifest.units for pair in unit.requested})
        print(f"  script     asked for {', '.join(asked) or 'nothing'}")
        print(f"  compiled   {len(manifest.units)} translation unit(s) behind the shim, {manifest.compiler}")
        for binary in manifest.found:
            images = ", ".join(f"{arch} {count}" for arch, count in binary.images.items()) or "no device code"
            print(f"  found      {binary.file}: {images}; glibc {binary.glibc}")
    return ExitCode.OK


def _show(args: argparse.Namespace) -> int:
    from orbit.core.paths import checkout_root
    from orbit.kernels.recipe import load_recipe, render_env
    from orbit.kernels.sources import resolve_source
    from orbit.profile.lock import read_lock
    from orbit.profile.model import load_profile

    root, profile = checkout_root(), load_profile(args.profile)
    recipe = load_recipe(args.name)
    source = resolve_source(recipe, read_lock(root / "uv.lock"), root)
    env = render_env(recipe, profile.target_archs())
    if args.json:
        _print_json({"recipe": recipe, "source": source, "env": env})
        return ExitCode.OK
    print(f"{recipe.name}  ({recipe.dist} {source.version}, tier {recipe.tier})")
    print(f"  source     {source.kind} {source.file} sha256 {source.sha256}")
    print(f"  built in   group {recipe.group}, {recipe.memory_gib:g} GiB a job, about {recipe.core_hours:g} core-hours")
    print(f"  variables  {' '.join(f'{key}={value}' for key, value in env.items()) or 'none'}")
    print(f"  must hold  {', '.join(recipe.artifacts)}; {recipe.device_units} unit(s) with device code")
    return ExitCode.OK


def _print_json(value: Any) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2).decode() + "\n")
