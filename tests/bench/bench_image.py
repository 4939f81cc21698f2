#!/usr/bin/env python3
"""Time the writing of an image's layers against ``tar | zstd -3 -T0`` over the same files, and what a bump costs.

    .venv/bin/python tests/bench/bench_image.py ENVIRONMENT [--profile cu130] [--rounds 3] [--layers torch,kernels]
    .venv/bin/python tests/bench/bench_image.py ENVIRONMENT --bump packaging

ENVIRONMENT is a folder that ``orbit env create`` printed; it is only read. Both write to ``--work`` (which needs room
for one compressed image; the stores are deleted after each round), one after the other, in every round. Each figure is
the median over the rounds, of whole processes: seconds by the clock, seconds of processor (user and system, children
included), and the largest resident set. Ours plans, hashes (members, stream, blob), compresses, writes and flushes to
the disk; tar and zstd do not hash and do not flush.

With ``--facts`` the digests that an audit computed are taken from it, as ``ship`` does, which audits before it writes.

With ``--bump NAME`` one distribution's files are taken to be others (each gets one more byte), all other layers are in
the store already, and the planning and the writing of what that moves are timed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.env.installed import read_installed
from orbit.image.blob import codec_identity
from orbit.image.cache import Request, Stream, obtain_layers
from orbit.image.content import list_environment, members_key, plan_layers, remembered_digests
from orbit.image.layers import SITE
from orbit.image.tar import Member, tar_chunks, with_parents
from orbit.profile.model import load_profile

Plan = dict[str, list[Member]]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process and its children took."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def timed(argv: Sequence[str]) -> Cost:
    """Run a program and measure it from outside."""
    began = time.monotonic()
    process = subprocess.Popen(argv)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{argv[0]} ended with {process.returncode}")
    return Cost(time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def plan_of(environment: Path, profile: str, chosen: Sequence[str], facts: Path | None = None) -> Plan:
    """The members of the chosen layers (all: none named), planned anew; ``facts``: what an audit remembers."""
    listing, made = list_environment(environment), load_profile(profile)
    known = remembered_digests(listing, made.python, facts) if facts else {}
    plan = plan_layers(listing, made.image, progress=Silent(), remembered=known)
    wanted = [name for name in plan if not chosen or name.partition("-")[0] in chosen or name in chosen]
    return {name: plan[name] for name in wanted if plan[name]}


def requests(plan: Plan) -> list[Request]:
    """Requests of the layers, keyed by content as ``orbit image build`` does it."""

    def request(name: str, members: list[Member]) -> Request:
        def stream() -> Stream:
            ordered = with_parents(members)
            return Stream(chunks=tar_chunks(ordered), files=len(members), size=sum(m.size for m in members))

        return Request(name, "zstd", {"members": members_key(members), "codec": codec_identity("zstd")}, stream)

    return [request(name, members) for name, members in plan.items()]


def write(args: argparse.Namespace) -> None:
    """The measured part of a round: plan and write into a fresh store."""
    obtain_layers(
        requests(plan_of(args.environment, args.profile, args.layers, args.facts)), Store(args.work), Silent()
    )


def compare(args: argparse.Namespace) -> None:
    """Both ways, in turn."""
    plan = plan_of(args.environment, args.profile, args.layers)
    paths = [os.path.relpath(str(m.source), args.environment) for part in plan.values() for m in part if m.source]
    total = sum(member.size for part in plan.values() for member in part)
    listed = args.work / "files"
    listed.write_text("".join(f"{path}\n" for path in sorted(paths)))
    packed = args.work / "packed"
    tar = f"tar --create --directory={args.environment} --no-recursion --files-from={listed}"
    pipe = f"{tar} | zstd -q -3 -T0 -o {packed}"
    own = [sys.executable, __file__, str(args.environment), "--profile", args.profile, "--write"]
    own += ["--facts", str(args.facts)] if args.facts else []
    own += ["--layers", ",".join(args.layers)] if args.layers else []
    ours: list[Cost] = []
    theirs: list[Cost] = []
    size = 0
    for _ in range(args.rounds):
        theirs.append(timed(["bash", "-o", "pipefail", "-c", pipe]))
        size = packed.stat().st_size
        packed.unlink()
        store = args.work / "store"
        ours.append(timed([*own, "--work", str(store)]))
        shutil.rmtree(store)
    print(f"{len(plan)} layers, {len(paths)} files, {total / 1e6:.0f} MB, packed {size / 1e6:.0f} MB")
    print(f"load {os.getloadavg()[0]:.1f}")
    for name, costs in (("tar | zstd -3 -T0", theirs), ("orbit", ours)):
        print(line(name, costs, total))
    clock = median(cost.wall_s for cost in theirs) / median(cost.wall_s for cost in ours)
    cpu = median(cost.cpu_s for cost in theirs) / median(cost.cpu_s for cost in ours)
    print(f"{'speed of orbit / of tar | zstd':32} {clock:6.2f} by the clock  {cpu:6.2f} by processor time")


def line(name: str, costs: Sequence[Cost], total: int) -> str:
    """One row of the report."""
    wall, cpu = median(cost.wall_s for cost in costs), median(cost.cpu_s for cost in costs)
    peak = max(cost.peak_bytes for cost in costs)
    return f"{name:32} {wall:7.2f} s  {cpu:7.2f} cpu s  {total / wall / 1e6:6.0f} MB/s  {peak / 1e6:5.0f} MB peak"


def median(values: Iterable[float]) -> float:
    """The middle one."""
    return statistics.median(list(values))


def bump(args: argparse.Namespace) -> None:
    """What another version of one distribution moves."""
    plan = plan_of(args.environment, args.profile, args.layers)
    store = Store(args.work / "store")
    obtain_layers(requests(plan), store, Silent())
    dist = next(dist for dist in read_installed(args.environment / SITE) if dist.name == args.bump)
    prefix = load_profile(args.profile).image.prefix.strip("/")
    names = {os.path.normpath(f"{prefix}/{SITE}/{item.path}") for item in dist.lines}
    for number in range(args.rounds):
        other = {name: [edited(m, number) if m.name in names else m for m in part] for name, part in plan.items()}
        began, cpu = time.monotonic(), time.process_time()
        layers = obtain_layers(requests(other), store, Silent())
        took = {"seconds": round(time.monotonic() - began, 2), "cpu_s": round(time.process_time() - cpu, 2)}
        moved = {layer.name: layer.blob.size for layer, reused in layers if not reused}
        print(json.dumps({"dist": args.bump, **took, "moved": moved}))


def edited(member: Member, number: int) -> Member:
    """The same member with other content."""
    if member.kind != "file" or not isinstance(member.source, Path):
        return member
    data = member.source.read_bytes() + bytes([number])
    return replace(member, source=data, size=len(data), sha256=f"{number}", stamp=())


def main() -> int:
    """Compare, or show what a bump moves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", type=Path)
    parser.add_argument("--profile", default="cu130")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=lambda text: text.split(","), default=[], help="only these, by comma")
    parser.add_argument("--bump", metavar="DIST")
    parser.add_argument("--facts", type=Path, help="folder `facts` of a store in which the environment was audited")
    parser.add_argument("--work", type=Path, help="where to write (default: a temporary folder)")
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.write:
        write(args)
        return 0
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    args.work = Path(tempfile.mkdtemp(prefix="orbit-bench-", dir=args.work))
    try:
        (bump if args.bump else compare)(args)
    finally:
        shutil.rmtree(args.work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
