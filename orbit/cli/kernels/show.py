"""Explain a recipe by its name, or say what is in a wheel: tags and whether they hold, device code by architecture,
needs, run paths, and whether its manifest agrees. A wheel with something wrong in it gives exit status 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from orbit.cli import add_json_option, add_profile_option, print_json
from orbit.errors import ExitCode, InputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("what", metavar="RECIPE|WHEEL", help="e.g. causal-conv1d, or the path of a .whl file")
    parser.add_argument(
        "--deep", action="store_true", help="also count kernels, and those that do nothing, per architecture"
    )
    parser.add_argument(
        "--sass", action="store_true", help="also count instructions (wgmma, TMA, tcgen05, ...) per architecture"
    )
    parser.add_argument("--verbose", action="store_true", help="every file")
    add_profile_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """A name of a recipe is one; anything else is a path."""
    from orbit.kernels.recipe import recipe_names

    if args.what in recipe_names():
        asked = [f"--{name}" for name in ("deep", "sass", "verbose") if getattr(args, name)]
        if asked:
            raise InputError(f"{', '.join(asked)}: about wheels, and {args.what} is a recipe", fix="give a .whl file")
        return _recipe(args)
    if args.what.endswith(".whl"):
        return _wheel(args)
    raise InputError(
        f"{args.what}: neither a recipe nor a .whl file", fix=f"known recipes: {', '.join(recipe_names())}"
    )


def _recipe(args: argparse.Namespace) -> int:
    from orbit.core.paths import checkout_root
    from orbit.kernels.recipe import load_recipe, render_env
    from orbit.kernels.sources import resolve_source
    from orbit.profile.model import load_profile
    from orbit.profile.place import profile_lock

    root, profile = checkout_root(), load_profile(args.profile)
    recipe = load_recipe(args.what)
    source = resolve_source(recipe, profile_lock(profile, root), root)
    env = render_env(recipe, profile.target_archs())
    if args.json:
        print_json({"recipe": recipe, "source": source, "env": env})
        return ExitCode.OK
    print(f"{recipe.name}  ({recipe.dist} {source.version}, {recipe.mode}, tier {recipe.tier})")
    print(f"  source     {source.kind} {source.file or recipe.source.url} {source.identity}")
    for patch in recipe.patches:
        print(f"  patch      {patch.file}: {patch.reason}")
    print(
        f"  built in   group {recipe.group}, {recipe.memory_gib:g} GiB a step, about {recipe.core_hours:g} core-hours"
    )
    print(f"  variables  {' '.join(f'{key}={value}' for key, value in env.items()) or 'none'}")
    print(f"  must hold  {', '.join(recipe.artifacts)}; {recipe.device_units} unit(s) with device code")
    for feature in recipe.features:
        print(f"  asserted   {feature.name}: {feature.reason}")
    return ExitCode.OK


def _wheel(args: argparse.Namespace) -> int:
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.kernels.prebuilt.disassembler import locked_disassembler
    from orbit.kernels.wheels.describe import describe_wheel
    from orbit.kernels.wheels.describe_text import render_description
    from orbit.profile.model import load_profile
    from orbit.profile.place import profile_lock

    path = Path(args.what)
    if not path.is_file():
        raise InputError(f"{path}: no such file", fix="give the path of a wheel, or the name of a recipe")
    progress, profile = Console(), load_profile(args.profile)
    tool = None
    if args.sass:
        tool = locked_disassembler(profile_lock(profile, checkout_root()), open_store(), progress)
    found = describe_wheel(path, profile, progress, kernels=args.deep, sass=args.sass, nvdisasm=tool)
    if args.json:
        print_json(found)
    else:
        color = sys.stdout.isatty()
        width = _width() if color else None
        print(render_description(found, width=width, color=color, verbose=args.verbose), end="")
    wrong = any(each.fatal for each in found.findings) or (found.manifest is not None and not found.manifest.agrees)
    return ExitCode.FINDINGS if wrong else ExitCode.OK


def _width() -> int:
    import shutil

    return shutil.get_terminal_size().columns
