"""Where everything comes from that the profile's kernels are made of: the checkout, the store, a folder in
ORBIT_SOURCES, or the network. ``--export`` puts all of it into one folder for a machine without network.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import add_json_option, add_profile_option, add_tier_option, print_json
from orbit.errors import ExitCode, InputError, MissingError


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("--export", metavar="DIR", help="fetch what is missing and put everything there")
    add_tier_option(parser)
    add_profile_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Survey, or export."""
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.kernels.sources.export import export_sources
    from orbit.kernels.sources.survey import survey
    from orbit.profile.model import load_profile

    profile, root, store = load_profile(args.profile), checkout_root(), open_store()
    if args.export is not None:
        folder = _folder(args.export)
        with store.writer("orbit kernels sources --export"):
            done = export_sources(profile, root, store, folder, Console(), tier=args.kernels)
        if args.json:
            print_json(done)
        else:
            for file in done.files:
                print(f"{file.file}  {file.size / 2**20:.1f} MiB{'  (was there)' if file.reused else ''}")
        if done.missing:
            raise MissingError(
                "\n".join(
                    [f"{args.export}: not complete", *(f"  {each.what}: {each.reason}" for each in done.missing)]
                ),
                fix="get these where there is a network, put them there, and run the same command again",
            )
        return ExitCode.OK
    found = survey(profile, root, store, tier=args.kernels)
    if args.json:
        print_json(found)
        return ExitCode.OK
    for need in found:
        what = need.commit[:12] or need.file or need.version
        name = f"{need.recipe}/{need.submodule}" if need.submodule else need.recipe
        print(f"{name:<28} {need.kind:<6} {what:<52} {need.where}{f' ({need.problem})' if need.problem else ''}")
    return ExitCode.OK


def _folder(text: str) -> Path:
    """Where to put everything. Raises :class:`InputError` for what is no folder and cannot become one."""
    from orbit.core.paths import folder_named

    if not text:
        raise InputError("--export needs a folder", fix="--export DIR")
    return folder_named("--export", text)
