"""Write an environment into one file, zstd-compressed tar, that can be unpacked anywhere.

Equal environments give equal bytes. Every file is compared with its digest while it is read. Page: docs/env-archive.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from orbit.cli import add_json_option, add_profile_option, print_json
from orbit.errors import InputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("env", type=Path, metavar="ENV", nargs="?", help="folder (default: the profile's in the store)")
    add_profile_option(parser)
    parser.add_argument("--output", metavar="FILE", required=True, help="FILE.tar.zst; - for standard output")
    parser.add_argument("--jobs", type=int, metavar="N", help="threads that compress (default: all cores)")
    parser.add_argument(
        "--without-orbit", action="store_true", help="leave out Orbit's own files: entry point, commands, checks"
    )
    parser.add_argument("--dry-run", action="store_true", help="check the environment and say what would be in it")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Write the archive and say what is in it."""
    from orbit.core.amounts import format_bytes
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.env.archive import plan_archive, write_archive, write_archive_file
    from orbit.env.archive_list import MANIFEST
    from orbit.image.own import read_own

    piped = args.output == "-"
    if piped and not args.dry_run:
        if args.json:
            raise InputError("--json and --output -: both want standard output", fix="name a file")
        if sys.stdout.isatty():
            fix = "pipe it: ... | ssh HOST orbit env hydrate - --prefix DIR"
            raise InputError("--output -: standard output is a terminal", fix=fix)
    if args.jobs is not None and args.jobs < 1:
        raise InputError(f"--jobs {args.jobs}: at least one is needed", fix="leave it out to use all cores")
    progress = Console()
    prefix = args.env or _stored(args.profile)
    has_own = (prefix / MANIFEST).is_file()  # it came out of an archive, with Orbit's files
    own = None if args.without_orbit or has_own else read_own(checkout_root())
    plan = plan_archive(prefix, own, progress=progress)
    made = plan.manifest
    what = f"environment {made.environment[:12]}: {made.files} files, {format_bytes(made.bytes)}"
    if args.dry_run:
        print_json(made) if args.json else print(f"would write {what}")
        return 0
    if piped:
        written = write_archive(plan, sys.stdout.fileno(), workers=args.jobs, progress=progress)
    else:
        written = write_archive_file(plan, Path(args.output), workers=args.jobs, progress=progress)
    if args.json:
        print_json({"archive": args.output, "written": written, "manifest": made})
        return 0
    line = f"{written.sha256}  {args.output}\n{what} in {format_bytes(written.size)}"
    print(line, file=sys.stderr if piped else sys.stdout)
    return 0


def _stored(name: str) -> Path:
    """The environment of a profile in the store that was used last."""
    from orbit.core.store import open_store
    from orbit.env.create import KIND
    from orbit.errors import MissingError

    store = open_store()
    for entry in store.entries(KIND):
        if entry.record.inputs.get("profile") == name:
            return entry.path / "prefix"
    raise MissingError(
        f"no environment of profile {name} in the store {store.root}", fix=f"orbit env create --profile {name}"
    )
