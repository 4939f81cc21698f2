"""Pull an image from a registry into an OCI layout: every byte checked, resumed after a broken connection."""

from __future__ import annotations

import argparse
from pathlib import Path

from orbit.cli import print_json
from orbit.cli.image.push import add_transfer_options, jobs_of, print_blobs, print_plan
from orbit.core.amounts import format_bytes


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument("reference", metavar="REFERENCE", help="HOST/REPOSITORY:TAG or HOST/REPOSITORY@sha256:...")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="the layout; replaced in one step")
    parser.add_argument(
        "--platform", metavar="OS/ARCH", default="linux/amd64", help="which image of several (default: linux/amd64)"
    )
    add_transfer_options(parser)


def run(args: argparse.Namespace) -> int:
    """Pull it and say what came."""
    from orbit.core.console import Console
    from orbit.core.store import cache_root
    from orbit.image.registry.known import known_file, remember
    from orbit.image.registry.pull import plan_pull, pull
    from orbit.image.registry.reference import parse_reference

    reference, out, progress, jobs = parse_reference(args.reference), args.out.absolute(), Console(), jobs_of(args)
    if args.dry_run:
        plan = plan_pull(reference, out, progress=progress, platform=args.platform, plain_http=args.plain_http)
        print_json(plan) if args.json else print_plan(plan.blobs, plan.moved_bytes, plan.reference)
        return 0
    file = known_file(cache_root())
    result = pull(reference, out, progress=progress, platform=args.platform, plain_http=args.plain_http, jobs=jobs)
    remember(file, reference.host, reference.repository, [blob.digest for blob in result.blobs])
    if args.json:
        print_json(result)
        return 0
    print_blobs(result.blobs)
    print(f"{out}  {result.digest}  ({format_bytes(result.moved_bytes)} came)")
    if result.remote_digest != result.digest:
        print(f"it was docker's manifest {result.remote_digest}; the layout says the same in OCI's words")
    return 0
