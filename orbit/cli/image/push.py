"""Push a layout into a registry: only blobs that are not there, resumed after a broken connection, the tag last."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json
from orbit.cli.image import add_layout_argument
from orbit.core.amounts import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orbit.image.registry.transfer import BlobState


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    add_layout_argument(parser)
    parser.add_argument("reference", metavar="REFERENCE", help="HOST/REPOSITORY:TAG")
    parser.add_argument(
        "--mount-from",
        metavar="REPOSITORY",
        default="",
        help="take blobs from this repository of the same registry (known ones are tried by themselves)",
    )
    add_transfer_options(parser)


def add_transfer_options(parser: argparse.ArgumentParser) -> None:
    """What push and pull have in common."""
    parser.add_argument("--plain-http", action="store_true", help="no TLS, for hosts other than this machine, too")
    parser.add_argument("--jobs", type=int, metavar="N", default=4, help="blobs at once (default: 4)")
    parser.add_argument("--dry-run", action="store_true", help="say which blobs would travel, and change nothing")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Push it and say what is there now."""
    from orbit.core.console import Console
    from orbit.core.store import cache_root
    from orbit.image.oci import read_layout
    from orbit.image.registry.known import known_file, recall, remember
    from orbit.image.registry.push import plan_push, push
    from orbit.image.registry.reference import check_repository, parse_reference

    reference, progress, jobs = parse_reference(args.reference), Console(), jobs_of(args)
    if args.dry_run:
        plan = plan_push(args.layout, reference, progress=progress, plain_http=args.plain_http)
        print_json(plan) if args.json else print_plan(plan.blobs, plan.moved_bytes, plan.reference)
        return 0
    file = known_file(cache_root())
    sources = recall(file, reference.host, reference.repository)
    if args.mount_from:
        check_repository(args.mount_from, args.mount_from)
        digests = [item.digest for item in read_layout(args.layout).manifest.layers]
        sources |= dict.fromkeys(digests, args.mount_from)
    result = push(args.layout, reference, progress=progress, plain_http=args.plain_http, sources=sources, jobs=jobs)
    remember(file, reference.host, reference.repository, [blob.digest for blob in result.blobs])
    if args.json:
        print_json(result)
        return 0
    print_blobs(result.blobs)
    print(f"{result.reference}  {result.digest}  ({format_bytes(result.moved_bytes)} sent)")
    return 0


def jobs_of(args: argparse.Namespace) -> int:
    """``--jobs``. Raises :class:`InputError` for a number that allows nothing."""
    from orbit.errors import InputError

    if not 1 <= args.jobs <= 64:
        raise InputError(f"--jobs {args.jobs}: between 1 and 64", fix="leave it out to move 4 blobs at once")
    jobs: int = args.jobs
    return jobs


def print_blobs(blobs: Sequence[BlobState]) -> None:
    """One line per blob, on stderr."""
    for blob in blobs:
        print(f"{blob.name:12} {format_bytes(blob.size):>9}  {blob.digest[7:19]}  {blob.state}", file=sys.stderr)


def print_plan(blobs: Sequence[BlobState], moved: int, where: str) -> None:
    """What would travel."""
    print_blobs(blobs)
    count = sum(blob.state == "missing" for blob in blobs)
    print(f"{where}: {count} of {len(blobs)} blobs, {format_bytes(moved)} would travel; nothing was changed")
