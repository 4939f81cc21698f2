"""Ask this node whether a job can run here: limits, folders, network, GPUs; first thing in every job.

Without options nothing is demanded, and what is there is told. ``--stack`` also tests the devices through torch:
memory, products, peer access, IPC, all-reduce. Exit status: 0 fit, 1 unfit. Page: docs/preflight.md.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from orbit.cli import add_json_option, print_json
from orbit.errors import ExitCode, InputError

if TYPE_CHECKING:
    from orbit.launch.preflight.model import Demand, NodeReport

HELP = "ask this node whether a job can run here: limits, folders, network, GPUs"
RDMA = ("none", "wanted", "required")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    demand = parser.add_argument_group("what the node must have (left out: nothing is demanded)")
    demand.add_argument("--image", default="", metavar="DIGEST", help="sha256:... that must run here")
    for name, metavar, text in (
        ("gpus", "N", "GPUs"),
        ("cpus", "N", "hardware threads"),
        ("memory-gib", "N", "main memory, GiB"),
        ("shm-gib", "N", "size of /dev/shm, GiB"),
        ("scratch-gib", "N", "free room in the scratch folder, GiB"),
    ):
        demand.add_argument(f"--{name}", type=int, default=0, metavar=metavar, help=text)
    demand.add_argument("--nofile", type=int, default=65536, metavar="N", help="open files (default: 65536)")
    demand.add_argument(
        "--scratch", default="", metavar="FOLDER", help="folder that is written to (default: the state)"
    )
    demand.add_argument("--shared", default="", metavar="FOLDER", help="folder that all nodes see")
    demand.add_argument("--rdma", choices=RDMA, default="none", help="whether RDMA is used (default: none)")
    demand.add_argument("--head", default="", metavar="HOST", help="name or address of the first node")
    demand.add_argument("--ports", default="", metavar="P,P", help="one of which must be free (on the first node)")
    tests = parser.add_argument_group("tests of the devices (through torch)")
    tests.add_argument("--stack", action="store_true", help="test memory, products, peers, IPC and all-reduce")
    tests.add_argument("--burn-in", action="store_true", help="load all GPUs for a minute as well")
    tests.add_argument("--cpu", action="store_true", help="no GPU: with --stack the same tests on processors (gloo)")
    parser.add_argument("--rank", type=int, default=0, metavar="R", help="which node of a job this is (default: 0)")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of a report and end")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Check, print, and tell the result by the status."""
    import functools
    import os
    import socket
    import sys

    from orbit.launch.fingerprint.take import own_prefix, take
    from orbit.launch.preflight.model import NodeReport
    from orbit.launch.preflight.run import check_node

    if args.schema:
        from orbit.audit.reports.report import json_schema

        sys.stdout.write(json_schema(NodeReport).decode())
        return ExitCode.OK
    demand = demand_of(args)
    prefix, devices = own_prefix(os.environ), args.stack or args.burn_in
    report = check_node(
        demand,
        rank=args.rank,
        host=socket.gethostname(),
        prefix=prefix,
        devices=devices,
        cpu=args.cpu,
        fingerprint=functools.partial(take, prefix, loaded=devices and not args.cpu),
    )
    if args.json:
        print_json(report)
    else:
        _show(report)
    return ExitCode.OK if report.fit else ExitCode.FINDINGS


def demand_of(args: argparse.Namespace) -> Demand:
    """What the options demand. Raises :class:`InputError` for what nothing can have."""
    import msgspec

    from orbit.launch.job import DIGEST
    from orbit.launch.preflight.model import Demand

    for name in ("gpus", "cpus", "memory_gib", "shm_gib", "scratch_gib", "nofile", "rank"):
        if getattr(args, name) < 0:
            raise InputError(f"--{name.replace('_', '-')} {getattr(args, name)}", fix="0 demands nothing")
    if args.image and not DIGEST.match(args.image):
        raise InputError(f"--image {args.image}: no digest", fix="sha256: and 64 hexadecimal digits")
    if args.cpu and args.gpus:
        raise InputError("--cpu with --gpus", fix="leave one of them out: --cpu tests without any GPU")
    if (args.stack or args.burn_in) and not (args.gpus or args.cpu):
        raise InputError("--stack tests devices, and none is demanded", fix="add --gpus N, or --cpu")
    words = [word.strip() for word in args.ports.split(",") if word.strip()]
    bad = [word for word in words if not word.isascii() or not word.isdigit() or not 0 < int(word) < 65536]
    if bad:
        raise InputError(f"--ports {args.ports}: {bad[0]!r} is no port", fix="numbers from 1 to 65535, with commas")
    values = {name: getattr(args, name) for name in Demand.__struct_fields__ if name != "ports"}
    return msgspec.convert({**values, "ports": tuple(map(int, words))}, Demand)


def _show(report: NodeReport) -> None:
    """A line for each check, what is wrong last."""
    from orbit.core.amounts import format_seconds
    from orbit.launch.preflight.model import State
    from orbit.launch.preflight.say import line

    order = (State.PASSED, State.SKIPPED, State.WARNING, State.FAILED)
    for check in sorted(report.checks, key=lambda check: order.index(check.state)):
        print(f"{check.state:8} {check.name:18} {line(check)}")
    said = "fit" if report.fit else f"unfit: {', '.join(c.name for c in report.checks if c.state is State.FAILED)}"
    print(f"{report.host}: {said} ({format_seconds(report.seconds)})")
