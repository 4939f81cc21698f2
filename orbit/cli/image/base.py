"""The packages every image stands on: which ones, whether they are up to date, where they come from.

containers/NAME.toml says what is wanted, containers/NAME.lock which files that is. Page: docs/image-base.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json
from orbit.core.amounts import format_bytes
from orbit.errors import ExitCode, InputError

if TYPE_CHECKING:
    from orbit.image.base.definition import BaseDefinition
    from orbit.image.base.lock import BaseLock

STEPS = {
    "show": "what is locked: packages, versions, sizes",
    "check": "does the lock fit its definition, is it fresh, can every file still be had",
    "refresh": "lock what the archive has today, signatures checked; shows the difference",
    "fetch": "get every locked package onto this machine",
    "export": "put every locked package into one folder, for a machine without network",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Sub-commands and their options."""
    steps = parser.add_subparsers(metavar="STEP", dest="step", required=True)
    for name, text in STEPS.items():
        child = steps.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        child.add_argument("--base", default="base", metavar="NAME", help="base in containers (default: base)")
        add_json_option(child)
        child.set_defaults(work=globals()[f"_{name}"])
        if name == "check":
            child.add_argument("--offline", action="store_true", help="do not ask the archive")
        if name == "refresh":
            child.add_argument("--dry-run", action="store_true", help="show the difference, and change nothing")
            child.add_argument(
                "--accept-expired", action="store_true", help="take indexes whose time is over (a snapshot's always is)"
            )
        if name == "export":
            child.add_argument(
                "folder", metavar="DIR", help="where they go, by their file names; what is there and right stays"
            )
        if name in ("fetch", "export"):
            child.add_argument(
                "--dry-run", action="store_true", help="say what would be fetched and written, and do nothing"
            )


def run(args: argparse.Namespace) -> int:
    """Dispatch to the step."""
    from orbit.core.paths import checkout_root

    if args.step == "refresh":
        checkout_root()  # an installed copy has no lock to change
    status: int = args.work(args)
    return status


def _definition(args: argparse.Namespace) -> BaseDefinition:
    from orbit.image.base.definition import load_base

    definition = load_base(args.base)
    if definition.image:
        raise InputError(
            f"base {args.base} is the image {definition.image}: it has no list of packages",
            fix="its digest is its lock: to move to another one, write that digest into the definition",
        )
    return definition


def _lock(args: argparse.Namespace) -> BaseLock:
    from orbit.image.base.lock import read_base_lock

    return read_base_lock(args.base, _definition(args))


def _show(args: argparse.Namespace) -> int:
    lock = _lock(args)
    if args.json:
        print_json(lock)
        return ExitCode.OK
    width = max(len(package.name) for package in lock.packages)
    for package in lock.packages:
        mark = "  security" if package.security else ""
        print(f"{package.name:<{width}}  {package.version:<28} {package.size:>11,}  {package.source}{mark}")
    for release in lock.archives:
        print(f"{release.suite}  {release.label} {release.version}  {release.date}")
    print(f"{len(lock.packages)} packages, {format_bytes(lock.size)} to fetch")
    return ExitCode.OK


def _check(args: argparse.Namespace) -> int:
    from orbit.core.console import Console
    from orbit.core.store import open_store
    from orbit.image.base.survey import check_lock, render_check

    definition, lock, store = _definition(args), _lock(args), open_store()
    with store.writer("orbit image base check"):
        store.sweep()
        result = check_lock(args.base, definition, lock, store, Console(), offline=args.offline)
    print_json(result) if args.json else print(render_check(result))
    return result.exit_code


def _refresh(args: argparse.Namespace) -> int:
    from orbit.core.console import Console
    from orbit.core.store import open_store
    from orbit.image.base.lock import diff_locks, load_base_lock, lock_path, write_base_lock
    from orbit.image.base.refresh import resolve
    from orbit.image.base.survey import render_diff

    definition, path, store = _definition(args), lock_path(args.base), open_store()
    before = load_base_lock(path) if path.is_file() else None
    with store.writer("orbit image base refresh"):
        store.sweep()
        after = resolve(definition, store, Console(), expired=args.accept_expired).lock
    diff = diff_locks(before, after)
    if not args.dry_run and before != after:
        write_base_lock(path, after)
    if args.json:
        print_json(diff)
        return ExitCode.OK
    for line in render_diff(diff) or ["no package changes", *diff.dates]:
        print(line)
    done = "nothing was written" if args.dry_run or before == after else f"wrote {path}"
    print(done, file=sys.stderr)
    return ExitCode.OK


def _fetch(args: argparse.Namespace) -> int:
    lock = _lock(args)
    if _obtain(args, lock) is not None and not args.json:
        print(f"all {len(lock.packages)} packages of {args.base} are in the store")
    return ExitCode.OK


def _export(args: argparse.Namespace) -> int:
    from orbit.core.paths import folder_named
    from orbit.image.base.export import export_packages, unwritten

    if not args.folder:
        raise InputError("export needs a folder", fix="orbit image base export DIR")
    folder, lock = folder_named("DIR", args.folder), _lock(args)
    if args.dry_run and not args.json:
        wanted = unwritten(lock, folder)
        size = format_bytes(sum(package.size for package in wanted))
        print(f"{folder}: {len(wanted)} of {len(lock.packages)} packages would be written, {size}")
    debs = _obtain(args, lock)
    if debs is None:
        return ExitCode.OK
    files = export_packages(lock, debs, folder)
    if args.json:
        print_json({"folder": str(folder), "files": files})
        return ExitCode.OK
    new = sum(not file.reused for file in files)
    print(f"{folder}: {len(files)} packages, {format_bytes(lock.size)}, {new} of them new; name it in ORBIT_SOURCES")
    return ExitCode.OK


def _obtain(args: argparse.Namespace, lock: BaseLock) -> dict[str, Path] | None:
    """The packages in the store; None after a dry run."""
    from orbit.core.console import Console
    from orbit.core.store import open_store
    from orbit.image.base.fetch import find_places, no_place, obtain_packages, stored

    store, places = open_store(), find_places(_definition(args))
    missing = [package for package in lock.packages if not stored(package, store)]
    size = sum(package.size for package in missing)
    debs = None
    if args.dry_run:
        if not args.json:
            first = f"{len(missing)} of {len(lock.packages)} packages would be fetched, {format_bytes(size)}"
            print(first if not missing else f"{first}; the first of these places that has one gives it:")
            if missing:
                print(*(f"  {place.name}" for place in places) if places else [f"  nowhere: {no_place()}"], sep="\n")
            print("nothing was changed")
    else:
        with store.writer(f"orbit image base {args.step}"):
            store.sweep()
            debs = obtain_packages(lock, store, places, Console(), name=args.base)
    if args.json and (args.step == "fetch" or args.dry_run):
        print_json({
            "packages": len(lock.packages),
            "bytes": lock.size,
            "missing": [package.file for package in missing] if debs is None else [],
            "fetched": [] if debs is None else [package.file for package in missing],
            "fetched_bytes": 0 if debs is None else size,
        })  # fmt: skip
    return debs
