"""Build the image of a profile, look into it, put it into a container engine, or check that it works."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from orbit.cli import add_json_option, add_limit_options, add_profile_option, limit_of

HELP = "build, inspect, load or smoke-test the image"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    build = actions.add_parser(
        "build",
        help="lockfile -> kernels -> environment -> OCI layout; what is there is reused",
        description="Writes an OCI image layout. Needs no container engine.",
    )
    add_profile_option(build)
    add_json_option(build)
    build.add_argument("--out", type=Path, metavar="DIR", help="the layout (default: dist/image-PROFILE)")
    build.add_argument("--kernels", choices=("core", "all"), default="core", help="which recipes are built")
    add_limit_options(build)
    build.add_argument(
        "--compression", choices=("zstd", "gzip"), default="zstd", help="gzip: for tools that know no zstd layers"
    )
    build.add_argument("--dry-run", action="store_true", help="say what the image would be, and change nothing")
    context = actions.add_parser(
        "context",
        help="make a folder in which docker builds the same image from containers/Dockerfile",
        description="Then: DOCKER_BUILDKIT=1 docker build --network host --secret id=ca,src=BUNDLE DIR",
    )
    add_profile_option(context)
    context.add_argument("--out", type=Path, metavar="DIR", required=True)
    context.add_argument("--kernels", choices=("core", "all"), default="core", help="which recipes are built")
    add_limit_options(context)
    tree = actions.add_parser("tree", help="what the image has below its prefix, as a folder (used by the Dockerfile)")
    add_profile_option(tree)
    tree.add_argument("--wheels", type=Path, metavar="DIR", required=True, help="wheels of a build context")
    tree.add_argument("--out", type=Path, metavar="DIR", required=True, help="a new folder")
    inspect = actions.add_parser("inspect", help="layers, sizes, configuration, labels")
    inspect.add_argument("layout", type=Path, metavar="LAYOUT")
    inspect.add_argument("--verify", action="store_true", help="read every layer and compare it with its digest")
    add_json_option(inspect)
    load = actions.add_parser("load", help="put a layout into a docker engine")
    load.add_argument("layout", type=Path, metavar="LAYOUT", nargs="?", help="default: dist/image-PROFILE")
    add_profile_option(load)
    load.add_argument("--tag", metavar="NAME:TAG", help="default: the image's own name, with the tag latest")
    load.add_argument("--dry-run", action="store_true", help="say what would be loaded where, and change nothing")
    add_json_option(load)
    smoke = actions.add_parser("smoke", help="run the profile's checks inside the image")
    smoke.add_argument("layout", type=Path, metavar="LAYOUT")
    smoke.add_argument("--list", action="append", metavar="NAME", help="list in containers/smoke (may be repeated)")
    smoke.add_argument("--gpu", action="store_true", help="the profile's lists that need a GPU")
    smoke.add_argument("--engine", choices=("auto", "docker", "bubblewrap"), default="auto")
    add_profile_option(smoke)
    add_json_option(smoke)


def run(args: argparse.Namespace) -> int:
    """Do what was asked."""
    return ACTIONS[args.action](args)


def _build(args: argparse.Namespace) -> int:
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.env.create import create_environment
    from orbit.image.build import build_image
    from orbit.kernels.build import build_kernels
    from orbit.profile.model import load_profile

    profile, root, store = load_profile(args.profile), checkout_root(), open_store()
    out = (args.out or _default_layout(profile.name)).absolute()
    if args.dry_run:
        layers = ", ".join(["base", "interpreter", *(layer.name for layer in profile.image.layers), "orbit"])
        print(f"{profile.image.name} into {out}\nlayers: {layers}\nnothing was changed", file=sys.stderr)
        return 0
    progress = Console()
    with store.writer("orbit image build"):
        store.sweep()
        wheels = build_kernels(profile, root, store, tier=args.kernels, progress=progress, limit=limit_of(args))
        environment = create_environment(profile, root, wheels, store, progress=progress)
        image = build_image(
            profile, root, environment, wheels, store, out=out, progress=progress, codec=args.compression
        )
    if args.json:
        _print_json(image)
        return 0
    for layer in image.layers:
        state = "reused" if layer.reused else "written"
        print(f"{layer.name:12} {layer.size / 1e6:9.1f} MB  {layer.digest[7:19]}  {state}", file=sys.stderr)
    print(f"image  {image.digest}\nlayout {image.layout}", file=sys.stderr)
    return 0


def _inspect(args: argparse.Namespace) -> int:
    from orbit.core.console import Console
    from orbit.image.inspect import inspect_layout, render

    facts = inspect_layout(args.layout, verify=args.verify, progress=Console())
    _print_json(facts) if args.json else print(render(facts))
    return 0


def _load(args: argparse.Namespace) -> int:
    from orbit.core.console import Console
    from orbit.image.docker import load_image, require_engine
    from orbit.image.oci import read_layout

    path = args.layout or _default_layout(args.profile)
    layout = read_layout(path)
    title = layout.config.config.labels.get("org.opencontainers.image.title", "orbit/image")
    tag = args.tag or f"{title}:latest"
    if args.dry_run:
        engine = require_engine()
        print(f"{layout.manifest.config.digest} as {tag} into docker {engine.version}; nothing was changed")
        return 0
    loaded = load_image(path, tag=tag, progress=Console())
    if args.json:
        _print_json(loaded)
        return 0
    how = "was there already" if loaded.reused else "loaded"
    print(f"{loaded.tag}  {loaded.id}  ({how}, docker {loaded.engine}, {len(loaded.diff_ids)} layers equal)")
    return 0


def _smoke(args: argparse.Namespace) -> int:
    from orbit.core.console import Console
    from orbit.core.store import open_store
    from orbit.image.smoke import run_smoke
    from orbit.image.smoke_report import render
    from orbit.profile.model import load_profile

    profile = load_profile(args.profile)
    lists = tuple(args.list or (profile.smoke_gpu if args.gpu else profile.smoke))
    store = open_store()
    with store.writer("orbit image smoke"):
        report = run_smoke(profile, args.layout, lists, store, engine=args.engine, progress=Console())
    _print_json(report) if args.json else print(render(report))
    return report.exit_code


def _context(args: argparse.Namespace) -> int:
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.image.context import make_context
    from orbit.kernels.build import build_kernels
    from orbit.profile.model import load_profile

    profile, root, store, progress = load_profile(args.profile), checkout_root(), open_store(), Console()
    with store.writer("orbit image context"):
        store.sweep()
        wheels = build_kernels(profile, root, store, tier=args.kernels, progress=progress, limit=limit_of(args))
        print(make_context(profile, root, wheels, store, out=args.out.absolute(), progress=progress))
    return 0


def _tree(args: argparse.Namespace) -> int:
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.image.context import make_tree, read_wheelhouse
    from orbit.profile.model import load_profile

    profile, root, store = load_profile(args.profile), checkout_root(), open_store()
    with store.writer("orbit image tree"):
        wheels = read_wheelhouse(args.wheels.absolute())
        print(make_tree(profile, root, wheels, store, out=args.out.absolute(), progress=Console()))
    return 0


ACTIONS = {
    "build": _build,
    "context": _context,
    "tree": _tree,
    "inspect": _inspect,
    "load": _load,
    "smoke": _smoke,
}


def _default_layout(profile: str) -> Path:
    return Path("dist") / f"image-{profile}"


def _print_json(value: Any) -> None:
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
