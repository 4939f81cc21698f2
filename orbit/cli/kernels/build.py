"""Build what is missing. Several packages and units at once, as cores and memory allow; what a stopped build had
compiled is not compiled again.

A share of a build compiles into the unit cache and makes no wheel: ``--archs sm_90a`` here and ``--archs sm_100a``
there, or ``--part 1/4`` to ``--part 4/4`` on four machines. Whoever builds without these options afterwards, with the
caches merged or ORBIT_SHARED in common, finds every step done and makes the same wheel.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from orbit.cli import (
    add_json_option,
    add_limit_options,
    add_profile_option,
    add_tier_option,
    limit_of,
    print_json,
)
from orbit.errors import ExitCode, InputError

if TYPE_CHECKING:
    from orbit.kernels.build import Compiled
    from orbit.kernels.shim.config import Part

PART = re.compile(r"([0-9]{1,4})/([0-9]{1,4})")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("names", nargs="*", metavar="RECIPE", help="only these, whatever their tier")
    add_tier_option(parser)
    add_limit_options(parser)
    parser.add_argument("--part", metavar="K/N", help="compile the K-th of N shares into the unit cache, make no wheel")
    parser.add_argument(
        "--archs", metavar="A,B", help="compile for these architectures alone (sm_90a; host: C++), make no wheel"
    )
    add_profile_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Build, or compile a share."""
    from orbit.core.console import Console
    from orbit.core.paths import checkout_root
    from orbit.core.store import open_store
    from orbit.kernels.build import build_kernels, compile_part
    from orbit.kernels.recipe import gencode_pairs
    from orbit.profile.model import load_profile

    limit = limit_of(args)
    store, profile, root, progress = open_store(), load_profile(args.profile), checkout_root(), Console()
    part: Part | None = None
    if args.part is not None or args.archs is not None:
        index, count = parse_part("1/1" if args.part is None else args.part)
        known = tuple(real for _, real in gencode_pairs(profile))
        archs = [] if args.archs is None else parse_archs(args.archs, known)
        part = {"archs": archs, "index": index, "count": count}
    names = tuple(args.names)
    with store.writer("orbit kernels build"):
        store.sweep()
        if part is not None:
            done = compile_part(
                profile, root, store, part, tier=args.kernels, names=names, progress=progress, limit=limit
            )
            _print_share(done, args)
            return ExitCode.OK
        house = build_kernels(profile, root, store, tier=args.kernels, names=names, progress=progress, limit=limit)
    if args.json:
        print_json(house)
        return ExitCode.OK
    for wheel in house.wheels:
        print(f"{wheel.path}  {'reused' if wheel.reused else f'built in {wheel.seconds:.0f} s'}")
    for checked in house.verified:
        print(f"{checked.dist} {checked.version}: verified{', known already' if checked.reused else ''}")
    for skip in house.skipped:
        print(f"{skip.what}: skipped ({skip.reason})")
    return ExitCode.OK


def _print_share(done: tuple[Compiled, ...], args: argparse.Namespace) -> None:
    if args.json:
        print_json(done)
        return
    for each in done:
        print(f"{each.recipe}: {each.steps} steps compiled, {each.cached} found, {each.cpu_s:.0f} CPU seconds")
    if not done:
        print("nothing to compile: every wheel is in the store")


def parse_part(text: str) -> tuple[int, int]:
    """``2/4`` as numbers. Raises :class:`InputError`."""
    found = PART.fullmatch(text)
    index, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= index <= count:
        raise InputError(f"--part {text}: not a share", fix="say which of how many, from 1: --part 2/4")
    return index, count


def parse_archs(text: str, known: tuple[str, ...]) -> list[str]:
    """``sm_90a,host`` as a list. Raises :class:`InputError` for none and for what is not built."""
    archs = [word.strip() for word in text.split(",")]
    for arch in archs:
        if arch not in (*known, "host"):
            raise InputError(
                f"--archs {text}: {arch or 'nothing'} is not compiled for this profile",
                fix=f"it has {', '.join(known)} and host",
            )
    return archs
